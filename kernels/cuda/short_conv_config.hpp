// Launch shape of the short convolution: a thread takes some channels of some consecutive rows. The first
// rows of a sequence read its old tail, so that they all belong to the thread of the first of them, which
// writes the new tail when it is done.
#pragma once

#include "kernels/cuda/launch.hpp"

namespace weir::kernels::cuda {

inline constexpr std::int32_t k_conv_threads = 128;
// Rows of a thread where there are many: each row reads taps - 1 before it, which the first-level cache then
// has.
inline constexpr std::int32_t k_conv_rows_max = 16;
// Threads that keep a card busy; with fewer, rows go to threads of their own.
inline constexpr std::int64_t k_conv_threads_wanted = 2048L * k_multiprocessors;

constexpr std::int32_t conv_rows(std::int64_t rows, std::int32_t channels, std::int32_t width) {
  const std::int64_t share = rows * divide_up(channels, width) / k_conv_threads_wanted;
  return static_cast<std::int32_t>(share < 1 ? 1 : at_most(share, k_conv_rows_max));
}

// `width` channels a thread.
constexpr launch_shape conv_shape(std::int64_t rows, std::int32_t channels, std::int32_t width) {
  const std::int64_t columns = divide_up(divide_up(channels, width), k_conv_threads);
  return {.grid_x = divide_up(rows, conv_rows(rows, channels, width)),
          .grid_y = columns,
          .threads = k_conv_threads};
}

}  // namespace weir::kernels::cuda
