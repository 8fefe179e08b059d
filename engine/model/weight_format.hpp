// How weights are held in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weir::engine {

enum class weight_format : std::uint8_t {
  stored,  // as the checkpoint has them
  int8,    // matrices of products in int8 (model/narrow_weights.hpp)
  mxfp4,   // routed experts in MXFP4
};

constexpr std::optional<weight_format> weight_format_of(std::string_view name) {
  if (name == "stored") return weight_format::stored;
  if (name == "int8") return weight_format::int8;
  if (name == "mxfp4") return weight_format::mxfp4;
  return std::nullopt;
}

}  // namespace weir::engine
