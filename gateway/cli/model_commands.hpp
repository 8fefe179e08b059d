// Subcommands of `weir model` beside `eval`. Main thread only.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "engine/synth/random_model.hpp"
#include "gateway/cli/commands.hpp"

namespace weir::gateway::cli {

void add_model_synth(CLI::App& model, command& chosen);
void add_model_bench(CLI::App& model, command& chosen);
void add_model_plan(CLI::App& model, command& chosen);
void add_model_beside(CLI::App& model, command& chosen);

// The model that a measurement looks at: of --model, or of random weights from --config, which may lie on a
// CUDA device.
engine::result<std::shared_ptr<const engine::runner::loaded_model>> load_measured(
    const std::filesystem::path& model_dir, engine::synth::random_options random, std::string_view weights,
    int threads, bool on_device = false);

// --backend, one of those that engine::backend_kind_of() knows.
void add_backend_option(CLI::App& app, std::string& backend);
// --weights, one of those that engine::weight_format_of() knows.
void add_weights_option(CLI::App& app, std::string& weights);
// --activations, likewise with engine::activation_format_of().
void add_activations_option(CLI::App& app, std::string& activations);

// A number that is one: CLI::Range lets NaN pass.
CLI::Validator finite_range(double least, double most);

// Replaces a size as 80GB (80e9), 1.5GiB or 65536 by its bytes.
CLI::Validator byte_size(std::int64_t least, std::int64_t most);

// A count in the unit that suits its size: "48.12 B", "36.2 M"; and bytes: "3.20 GB", "412.0 kB".
std::string amount_text(std::int64_t count);
std::string bytes_text(std::int64_t bytes);

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
