// Writes a random checkpoint in the published layout: config.json as given, shards, their index. Tests of
// loading, memory and speed at a size for which no trained model is at hand. Blocks; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engine/model/model_config.hpp"
#include "engine/model/tensor_source.hpp"
#include "engine/result.hpp"

namespace weir::engine::synth {

struct named_tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  model::storage how;
};

// All tensors that a configuration asks for, in the order in which they are bound.
result<std::vector<named_tensor>> tensors_of(const model::model_config& config);

struct write_options {
  std::filesystem::path config_file;  // copied
  std::filesystem::path out_dir;      // made; must hold no checkpoint yet
  std::uint64_t seed = 1;
  std::int64_t shard_bytes = std::int64_t{4} << 30;
  int threads = 1;
  std::function<void(std::int64_t done, std::int64_t all)> told;  // after each piece; may be empty
  std::function<bool()> stopped;                                  // before each piece; may be empty
};

struct written {
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;
  std::int64_t shards = 0;
};

// errc::io where the disk takes no more, before anything is written if that can be known; errc::stopped when
// `stopped` said so. What had been written by then is removed.
result<written> write_checkpoint(const write_options& options);

}  // namespace weir::engine::synth
