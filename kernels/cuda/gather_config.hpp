// Launch shape of the operations that copy or scale whole rows: a block takes a part of one row.
#pragma once

#include "kernels/cuda/launch.hpp"

namespace weir::kernels::cuda {

inline constexpr std::int32_t k_row_threads = 256;
// Four values a thread: a row of 7,168 is seven blocks, so that one row alone is read by several
// multiprocessors.
inline constexpr std::int32_t k_row_part = 4 * k_row_threads;

constexpr std::int32_t row_parts(std::int32_t width) {
  return static_cast<std::int32_t>(divide_up(width, k_row_part));
}

// REQUIRES: rows * row_parts(width) within k_grid_x_max; a batch of 2^20 rows of 2^21 values is.
constexpr launch_shape row_part_shape(std::int64_t rows, std::int32_t width) {
  return {.grid_x = rows * row_parts(width), .threads = k_row_threads};
}

}  // namespace weir::kernels::cuda
