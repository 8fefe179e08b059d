// Subcommands of `weir model` beside `eval`. Main thread only.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/cli/commands.hpp"

namespace weir::gateway::cli {

void add_model_synth(CLI::App& model, command& chosen);
void add_model_bench(CLI::App& model, command& chosen);
void add_model_plan(CLI::App& model, command& chosen);
void add_model_beside(CLI::App& model, command& chosen);

// --weights, one of those that engine::weight_format_of() knows.
void add_weights_option(CLI::App& app, std::string& weights);
// --activations, likewise with engine::activation_format_of().
void add_activations_option(CLI::App& app, std::string& activations);

// How far something of `all` bytes is, in one line that is written over, where standard error is a terminal.
class byte_progress final {
 public:
  explicit byte_progress(std::string_view what);
  ~byte_progress();
  byte_progress(const byte_progress&) = delete;
  byte_progress& operator=(const byte_progress&) = delete;

  void operator()(std::int64_t done, std::int64_t all);

 private:
  std::string_view what_;
  bool shown_;
  std::int64_t last_percent_ = -1;
};

}  // namespace weir::gateway::cli
