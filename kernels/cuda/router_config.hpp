// Launch shape of the router: a block for a row, whose threads rank the experts and whose first warp then
// picks the best one k times.
#pragma once

#include "kernels/cuda/launch.hpp"
#include "kernels/params.hpp"

namespace weir::kernels::cuda {

inline constexpr std::int32_t k_router_threads = 128;  // 896 experts: seven scores a thread
inline constexpr std::size_t k_router_key_bytes = 8;   // an expert's rank, in shared memory
// What fits into the shared memory of every card, with room: twenty times the largest published router.
inline constexpr std::int32_t k_router_experts_max = 16384;

static_assert(k_router_experts_max * k_router_key_bytes <= k_shared_bytes_sm80);
static_assert(k_experts_per_token_max <= 64, "a lane of the picking warp keeps two picks");

// REQUIRES: experts <= k_router_experts_max.
constexpr launch_shape router_shape(std::int32_t rows, std::int32_t experts) {
  return {.grid_x = rows,
          .threads = k_router_threads,
          .shared_bytes = static_cast<std::size_t>(experts) * k_router_key_bytes};
}

}  // namespace weir::kernels::cuda
