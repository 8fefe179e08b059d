// A command whose model several processes compute: which of them this one is, and starting the others. A
// launcher (torchrun, mpirun, srun) says it in the environment; else --ranks starts this program again, once
// for each rank beyond the first, with the same arguments. Main thread only, before it has others.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "engine/parallel/split.hpp"
#include "engine/result.hpp"

namespace weir::gateway::cli {

struct ranks_options {
  std::int64_t count = 0;  // 0: as the environment says, else 1
  std::string split = "tensor";
};

// --ranks and --split.
void add_ranks_options(CLI::App& app, ranks_options& options);

struct ranked_command {
  std::string_view name;  // as its messages begin
  // What can be refused before the others are started.
  std::function<engine::result<void>(const engine::ranks_config&)> check;
  std::function<int(const engine::ranks_config&)> lead;                     // rank 0; returns the exit code
  std::function<engine::result<void>(const engine::ranks_config&)> follow;  // any other, until rank 0 stops
};

// Returns the exit code. Ranks that were started here end with this process, however it ends.
int run_ranks(const ranks_options& options, const ranked_command& of);

}  // namespace weir::gateway::cli
