// Launch shapes of the norms: a warp for a row of a head, a block for a row of the model's width. Which one
// depends on the width alone, so that a row's sum runs in the same order in every batch.
#pragma once

#include "kernels/cuda/launch.hpp"

namespace weir::kernels::cuda {

inline constexpr std::int32_t k_norm_warp_dim_max = 512;  // four float4 a lane
inline constexpr std::int32_t k_norm_warps = 8;           // of a block: eight rows, or one

constexpr bool norm_by_warp(std::int32_t dim) {
  return dim <= k_norm_warp_dim_max;
}

constexpr launch_shape norm_shape(std::int32_t rows, std::int32_t dim) {
  return {.grid_x = norm_by_warp(dim) ? divide_up(rows, k_norm_warps) : rows, .threads = k_norm_warps * 32};
}

}  // namespace weir::kernels::cuda
