// Launch shapes of the KDA recurrence token by token. A block takes some columns of one head's state for all
// tokens of a sequence: columns do not know of one another, so that the state is read once and written once.
#pragma once

#include "kernels/cuda/launch.hpp"
#include "kernels/params.hpp"

namespace weir::kernels::cuda {

inline constexpr std::int32_t k_kda_fast_dim = 128;  // of both published models
// 32 columns are whole lines of 128 bytes, and 32 heads of one sequence are 128 blocks: a card's worth.
inline constexpr std::int32_t k_kda_columns = 32;
inline constexpr std::int32_t k_kda_parts = k_kda_fast_dim / k_kda_columns;
// Eight float4 of the state a thread, all of them asked for before the first is used: six blocks of 80
// registers a thread have 96 KiB under way on a multiprocessor, three times what hides the memory's latency.
inline constexpr std::int32_t k_kda_threads = 128;
inline constexpr std::int32_t k_kda_blocks = 6;                                 // on a multiprocessor
inline constexpr std::int32_t k_kda_quads = k_kda_columns / 4;                  // threads side by side
inline constexpr std::int32_t k_kda_groups = k_kda_threads / k_kda_quads;       // rows at once
inline constexpr std::int32_t k_kda_rows_kept = k_kda_fast_dim / k_kda_groups;  // of each thread
inline constexpr std::int32_t k_kda_any_warps = 8;                              // any other head dim

static_assert(k_kda_threads == k_kda_fast_dim, "a thread brings one value of each of q, k and g");
static_assert(k_kda_blocks * k_kda_threads * 80 <= 65536, "registers of a multiprocessor");
static_assert(k_kda_rows_kept * k_kda_groups == k_kda_fast_dim);

constexpr launch_shape kda_fast_shape(std::int32_t sequences, std::int32_t heads) {
  return {.grid_x = static_cast<std::int64_t>(sequences) * heads * k_kda_parts, .threads = k_kda_threads};
}

constexpr std::int32_t kda_any_parts(std::int32_t dim) {
  return static_cast<std::int32_t>(divide_up(dim, k_kda_columns));
}

// The state's columns lie in shared memory, and one token's q, k and decay, and each warp's sums.
constexpr std::size_t kda_any_floats(std::int32_t dim) {
  return static_cast<std::size_t>(dim) * (k_kda_columns + 3) + 2 * k_kda_any_warps * k_kda_columns;
}

constexpr launch_shape kda_any_shape(std::int32_t sequences, std::int32_t heads, std::int32_t dim) {
  return {.grid_x = static_cast<std::int64_t>(sequences) * heads * kda_any_parts(dim),
          .threads = k_kda_any_warps * 32,
          .shared_bytes = kda_any_floats(dim) * sizeof(float)};
}

static_assert(kda_any_floats(k_head_dim_max) * sizeof(float) <= k_shared_bytes_sm80);

}  // namespace weir::kernels::cuda
