// Attention over pages: how the positions of a row are split, and where what the stages hand on lies. Stages:
// absorb the queries; attend, a partial result per split; merge the splits in order; project to the values.
#pragma once

#include "kernels/cuda/plain_config.hpp"
#include "kernels/cuda/product_config.hpp"

namespace weir::kernels::cuda {

// The tensor-core kernel is for the one shape that published models have; others take the plain one.
inline constexpr int k_mla_rank = 512;
inline constexpr int k_mla_width = 576;
inline constexpr int k_mla_heads = 32;  // of a block: two row tiles, which share what is read of the pages
inline constexpr int k_mla_positions = 32;  // of a tile
inline constexpr int k_mla_buffers = 3;     // tiles: one read, two (74 KB) on their way
inline constexpr int k_mla_warps = 8;
inline constexpr int k_mla_threads = 32 * k_mla_warps;
// Depth of the scores is shared by four warps, each of which keeps its part of the queries in registers; two
// such groups have half of the positions each.
inline constexpr int k_mla_depth_warps = 4;
inline constexpr int k_mla_depth_steps = k_mla_width / 16 / k_mla_depth_warps;
inline constexpr int k_mla_columns = k_mla_rank / k_mla_warps;  // of the sums, of a warp
// Rows in shared memory: an odd number of 16 bytes apart, so that the eight rows of a tile lie in different
// banks.
inline constexpr int k_mla_latent_pitch = k_mla_width + 8;
inline constexpr int k_mla_weight_pitch = k_mla_positions + 8;
inline constexpr int k_mla_score_pitch = k_mla_positions + 4;
static_assert(k_mla_depth_steps * 16 * k_mla_depth_warps == k_mla_width);
static_assert(k_mla_latent_pitch / 8 % 2 == 1 && k_mla_weight_pitch / 8 % 2 == 1);
static_assert(k_mla_heads == 4 * k_mla_warps && k_mla_positions == 32, "a lane has a position of four heads");

struct mla_shared {
  static constexpr std::size_t k_latents = 0;
  static constexpr std::size_t k_scores =
      k_latents + 2ULL * k_mla_buffers * k_mla_positions * k_mla_latent_pitch;
  static constexpr std::size_t k_weights =
      k_scores + 4ULL * k_mla_depth_warps * k_mla_heads * k_mla_score_pitch;
  static constexpr std::size_t k_factors = k_weights + 2ULL * k_mla_heads * k_mla_weight_pitch;
  static constexpr std::size_t k_bytes = k_factors + 4ULL * 2 * k_mla_heads;
};
static_assert(mla_shared::k_bytes <= k_shared_bytes_sm80);
static_assert(mla_shared::k_scores % 16 == 0 && mla_shared::k_weights % 16 == 0);

// Positions of one split of a row that sees `count`. It follows from the row alone, so that a row's sums do
// not depend on the batch: eight splits, of 256 positions to 1024, and up to sixteen of more where the
// context is longer. A partial result is as large as 57 positions of 32 heads.
inline constexpr int k_mla_splits_max = 16;
constexpr std::int32_t split_positions(std::int32_t count) {
  std::int64_t out = 256;
  while (out < 1024 && out * 8 < count) out *= 2;
  while (out * k_mla_splits_max < count) out *= 2;
  return static_cast<std::int32_t>(out);
}
// The most splits of any row that sees at most `context`.
constexpr int splits_max(std::int32_t context) {
  if (context <= 8192) return static_cast<int>(at_most(divide_up(context, 256), 8));
  return static_cast<int>(at_most(divide_up(context, 1024), k_mla_splits_max));
}

// Rows times groups of heads from which on there are blocks enough without a block for each split: it then
// goes through the splits itself and adds each to what it has, as merging them later does.
inline constexpr std::int64_t k_mla_split_rows_max = 256;

struct mla_layout {
  std::int64_t slots = 1;   // partial results of a row and head
  std::size_t queries = 0;  // [T, H, R + Dr] of float or bf16; merged: [T, H, R] of float
  std::size_t sums = 0;     // [T, H, slots, R]
  std::size_t stats = 0;    // [T, H, slots, 2]: largest score, sum of weights
  std::size_t bytes = 0;
};

constexpr mla_layout mla_layout_of(std::int64_t rows, std::int64_t heads, std::int64_t rank,
                                   std::int64_t rope, std::int32_t context) {
  constexpr std::size_t k_align = 256;
  mla_layout out;
  if (rows * divide_up(heads, k_mla_heads) <= k_mla_split_rows_max) out.slots = splits_max(context);
  const auto take = [&](std::int64_t floats) {
    const std::size_t at = out.bytes;
    out.bytes += (sizeof(float) * static_cast<std::size_t>(floats) + k_align - 1) / k_align * k_align;
    return at;
  };
  out.queries = take(rows * heads * (rank + rope));
  out.sums = take(rows * heads * out.slots * rank);
  out.stats = take(rows * heads * out.slots * 2);
  return out;
}

// Absorbing: a block has eight tokens, which share a weight, and 128 columns; sixteen bytes of them a thread,
// and the threads that have the same columns share the depth.
inline constexpr int k_absorb_threads = 128;
inline constexpr int k_absorb_columns = 128;
inline constexpr int k_absorb_tokens = 8;
inline constexpr int k_absorb_depth = 128;  // of the tokens' queries, in shared memory
inline constexpr std::size_t k_absorb_shared_bytes =
    sizeof(float) * k_absorb_tokens * (k_absorb_depth + 8 * k_absorb_threads);
static_assert(k_absorb_shared_bytes <= 48 << 10);
inline constexpr int k_attend_warps = 4;
inline constexpr int k_attend_positions = 32;  // of a tile of the plain kernel: a lane has one's weight
inline constexpr int k_merge_threads = 512;    // a column of the published rank each

constexpr launch_shape absorb_shape(std::int64_t rows, std::int64_t heads, std::int64_t width) {
  return {.grid_x = divide_up(rows, k_absorb_tokens) * heads * divide_up(width, k_absorb_columns),
          .threads = k_absorb_threads,
          .shared_bytes = k_absorb_shared_bytes};
}
constexpr launch_shape attend_shape(std::int64_t rows, std::int64_t heads, std::int64_t slots) {
  return {.grid_x = rows * slots * divide_up(heads, k_mla_heads),
          .threads = k_mla_threads,
          .shared_bytes = mla_shared::k_bytes};
}
constexpr launch_shape attend_plain_shape(std::int64_t rows, std::int64_t heads, std::int64_t slots,
                                          std::int64_t rank, std::int64_t rope) {
  return {.grid_x = rows * slots * heads,
          .threads = 32 * k_attend_warps,
          .shared_bytes = sizeof(float) * static_cast<std::size_t>(2 * rank + rope + k_attend_positions)};
}
constexpr launch_shape project_plain_shape(std::int64_t rows, std::int64_t heads, std::int64_t value) {
  return {.grid_x = divide_up(value, k_plain_warps) * heads * divide_up(rows, k_plain_tokens),
          .threads = 32 * k_plain_warps};
}
constexpr launch_shape merge_shape(std::int64_t rows, std::int64_t heads) {
  return {.grid_x = rows * heads, .threads = k_merge_threads};
}

}  // namespace weir::kernels::cuda
