// model.safetensors.index.json: which shard each tensor is in. Pure; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/model/tensor_index.hpp"
#include "engine/result.hpp"

namespace weir::engine::model {

inline constexpr std::size_t k_shards_max = 4096;
inline constexpr std::size_t k_index_bytes_max = std::size_t{256} << 20;

// Adds every tensor to an empty index and seals it; gives the shards' file names, a tensor's shard being the
// place of its name there. errc::bad_model, naming the tensor, for: a shard that is no plain .safetensors
// file name, a tensor listed twice; and for text over the limits.
result<std::vector<std::string>> parse_weight_map(std::span<const std::byte> text, tensor_index& out);

}  // namespace weir::engine::model
