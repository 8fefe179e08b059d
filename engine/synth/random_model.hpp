// A model of random weights in memory (random_source.hpp) from a configuration alone. Blocks; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "engine/result.hpp"
#include "engine/runner/model_runner.hpp"

namespace weir::engine::synth {

struct random_options {
  std::filesystem::path config_file;  // config.json of a published layout
  std::uint64_t seed = 1;
  weight_format weights = weight_format::stored;
  int threads = 1;
  bool on_device = false;  // matrices in the first CUDA device's memory, of which nothing is narrowed
  std::function<void(std::int64_t done, std::int64_t all)> told;  // bytes, after each tensor; may be empty
};

// For a runner of that device alone, where they lie on one. errc::bad_request where this machine's free
// memory cannot hold it, with both sums.
result<std::shared_ptr<const runner::loaded_model>> make_model(const random_options& options);

}  // namespace weir::engine::synth
