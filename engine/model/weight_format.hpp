// How weights are held in memory, and in what precision activations meet them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/table.hpp"

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

// Beside them in matrix products: float32, or rounded to the weights' own precision (kernels/README.md).
using kernels::activation_format;

constexpr std::optional<activation_format> activation_format_of(std::string_view name) {
  if (name == "float32") return activation_format::float32;
  if (name == "narrow") return activation_format::narrow;
  return std::nullopt;
}

}  // namespace weir::engine
