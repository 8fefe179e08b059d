// The safetensors container: an 8-byte little-endian header length, a JSON header, then tensor data.
// Every offset is checked against the file before anything points into it. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/result.hpp"

namespace weir::engine::model {

inline constexpr std::size_t k_header_bytes_max = 100'000'000;  // the format's own limit
inline constexpr std::size_t k_rank_dims_max = 8;               // dimensions of one tensor
inline constexpr std::size_t k_name_bytes_max = 1024;           // of one tensor's name
inline constexpr std::size_t k_tensors_max = 1U << 21;          // four times the largest published checkpoint

struct tensor_view {
  std::string dtype;                // as written: BF16, F32, F16, U8, ...
  std::vector<std::int64_t> shape;  // product fits the data exactly
  std::span<const std::byte> data;  // inside the file; not necessarily aligned
};

using tensor_map = std::unordered_map<std::string, tensor_view>;

// Views into `file`. errc::bad_model, naming the tensor, for: a header beyond the file or the limit,
// malformed JSON, a duplicate or overlong name, an unknown dtype, a shape whose size differs from its range,
// ranges that overlap or leave the file.
result<tensor_map> parse_safetensors(std::span<const std::byte> file);

// "[4, 1, 3]"
std::string to_string(std::span<const std::int64_t> shape);

}  // namespace weir::engine::model
