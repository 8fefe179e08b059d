// Launch shape of the operations on two equal arrays.
#pragma once

#include "kernels/cuda/launch.hpp"

namespace weir::kernels::cuda {

// Eight blocks fill a multiprocessor; a thread has a float4 of each operand under way.
inline constexpr std::int32_t k_elementwise_threads = 256;
// Two waves: further elements go to the same threads, which saves the start of as many blocks.
inline constexpr std::int64_t k_elementwise_blocks_max = 16L * k_multiprocessors;

constexpr launch_shape elementwise_shape(std::int64_t count) {
  const std::int64_t blocks = divide_up(divide_up(count, 4), k_elementwise_threads);
  return {.grid_x = at_most(blocks, k_elementwise_blocks_max), .threads = k_elementwise_threads};
}

}  // namespace weir::kernels::cuda
