// Launches of products one weight at a time: a warp has a row of the weights for a few tokens.
#pragma once

#include "kernels/cuda/launch.hpp"

namespace weir::kernels::cuda {

inline constexpr int k_plain_warps = 8;
inline constexpr int k_plain_tokens = 8;  // sums of a lane: a weight is widened once for as many

// Further tokens go to the same warps.
inline constexpr std::int64_t k_plain_token_blocks_max = 1024;

constexpr launch_shape plain_shape(std::int64_t rows, std::int64_t tokens) {
  return {.grid_x = divide_up(rows, k_plain_warps) *
                    at_most(divide_up(tokens, k_plain_tokens), k_plain_token_blocks_max),
          .threads = 32 * k_plain_warps};
}

}  // namespace weir::kernels::cuda
