// How a kernel is laid out on a device, as data: plain host code without CUDA, so that a unit test sees what
// would be asked of the hardware. Every operation's shape is a pure function of its sizes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::kernels::cuda {

inline constexpr std::int64_t k_grid_x_max = 0x7FFFFFFF;
inline constexpr std::int64_t k_grid_yz_max = 65535;
inline constexpr std::int32_t k_threads_max = 1024;
inline constexpr std::size_t k_shared_bytes_sm80 = 163
                                                   << 10;  // of one block, the smallest of those supported

// Work that a card takes at once, of those with 108 (A100), 132 (H100, H200) and 148 (B200) multiprocessors:
// what shapes are made for. More or fewer is right too.
inline constexpr std::int32_t k_multiprocessors = 132;

struct launch_shape {
  std::int64_t grid_x = 0;  // zero in any: there is nothing to do
  std::int64_t grid_y = 1;
  std::int64_t grid_z = 1;
  std::int32_t threads = 0;
  std::size_t shared_bytes = 0;
};

constexpr bool fits(const launch_shape& shape) {
  return shape.grid_x >= 0 && shape.grid_x <= k_grid_x_max && shape.grid_y >= 0 &&
         shape.grid_y <= k_grid_yz_max && shape.grid_z >= 0 && shape.grid_z <= k_grid_yz_max &&
         shape.threads > 0 && shape.threads <= k_threads_max && shape.shared_bytes <= k_shared_bytes_sm80;
}

constexpr std::int64_t divide_up(std::int64_t count, std::int64_t by) {
  return (count + by - 1) / by;
}
constexpr std::int64_t at_most(std::int64_t count, std::int64_t limit) {
  return count < limit ? count : limit;
}

// Whether sixteen bytes may be read at each of these.
template <class... Pointers>
bool aligned16(const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace weir::kernels::cuda
