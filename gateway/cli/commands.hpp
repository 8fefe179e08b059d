// The commands of the `weir` program. Each adds its options to the command line and, when chosen, sets what
// main runs. Main thread only.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>

namespace weir::gateway::cli {

using command = std::function<int()>;  // returns the exit code

// Exit codes, as --help states them.
inline constexpr int k_ok = 0;
inline constexpr int k_failed = 1;       // the command ran and failed
inline constexpr int k_bad_config = 2;   // configuration or arguments
inline constexpr int k_streams_cut = 3;  // a drain ended with requests still running

void add_serve(CLI::App& app, command& chosen);
void add_engine(CLI::App& app, command& chosen);
void add_chat(CLI::App& app, command& chosen);
void add_model(CLI::App& app, command& chosen);
void add_keys(CLI::App& app, command& chosen);
void add_explain(CLI::App& app, command& chosen);
void add_costs(CLI::App& app, command& chosen);
void add_compare(CLI::App& app, command& chosen);

// The bundled model beside the sources or the installed program; empty when neither is there.
std::filesystem::path find_bundled_model();

}  // namespace weir::gateway::cli
