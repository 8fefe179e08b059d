// Sizes of the matrix products on tensor cores, and their launches. Weights are the left side of a tile (16
// of their rows), tokens the right one (8), so that one token does not pay for sixteen.
#pragma once

#include "kernels/cuda/launch.hpp"
#include "kernels/dtype.hpp"

namespace weir::kernels::cuda {

inline constexpr int k_row_tile = 16;    // of mma.m16n8k16
inline constexpr int k_token_tile = 8;   // of the same
inline constexpr int k_step_depth = 32;  // two mma: what four lanes of 16 bytes hold of a row of bf16
inline constexpr int k_product_warps = 8;
inline constexpr int k_product_threads = 32 * k_product_warps;

// Weights that a warp of the narrow kernel has under way, in units of 16 bytes a lane and row: 4 KiB of bf16
// at one row tile, 8 KiB at two. Two blocks fill a multiprocessor with 64 KiB or more, three times what the
// latency of the memory hides behind (4.8 TB/s x 600 ns / 132).
inline constexpr int k_ring_bf16 = 4;
inline constexpr int k_ring_mxfp4 = 2;  // four times as many codes, whose widening needs registers

// Token tiles of the narrow kernel: one, or as many as leave two blocks a multiprocessor.
inline constexpr int k_few_tiles = 4;
inline constexpr std::int64_t k_few_tokens = k_few_tiles * k_token_tile;

// The wide kernel: tokens lie in shared memory, k_stage_depth deep, k_stages of them in turn; weights go from
// memory to registers, since no warp shares them with another.
inline constexpr int k_stage_depth = 128;  // a unit of MXFP4
inline constexpr int k_stages = 3;         // one read, two on their way
inline constexpr int k_wide_row_tiles = 2;
inline constexpr int k_wide_rows = k_product_warps * k_wide_row_tiles * k_row_tile;
// Sums of 12 token tiles are 96 registers of a lane; at 16 some would lie in memory. Three parts of each
// activation triple the stage, so fewer tokens.
constexpr int wide_tiles(int parts) {
  return parts == 1 ? 12 : 8;
}
constexpr int wide_tokens(int parts) {
  return wide_tiles(parts) * k_token_tile;
}
constexpr std::size_t stage_bytes(int parts) {
  return sizeof(std::uint16_t) * k_stage_depth * static_cast<std::size_t>(parts * wide_tokens(parts));
}
constexpr std::size_t wide_shared_bytes(int parts) {
  return sizeof(std::int32_t) * static_cast<std::size_t>(wide_tokens(parts)) + k_stages * stage_bytes(parts);
}
static_assert(k_stage_depth % k_step_depth == 0);
static_assert(wide_shared_bytes(1) <= k_shared_bytes_sm80 && wide_shared_bytes(3) <= k_shared_bytes_sm80);
static_assert(wide_tokens(3) % 4 == 0, "stages behind the tokens' numbers are aligned to 16 bytes");

// Depth of packed activations: whole stages, zeros behind the end.
constexpr std::int64_t packed_depth(std::int64_t cols) {
  return divide_up(cols, k_stage_depth) * k_stage_depth;
}
constexpr std::size_t packed_bytes(std::int64_t rows, std::int64_t cols, int parts) {
  return sizeof(std::uint16_t) * static_cast<std::size_t>(parts * rows * packed_depth(cols));
}

// How the warps of a narrow block share its rows: `slices` of them go through one group of rows, each through
// its own part of the depth. Follows from the matrices alone, so that a row's sum does not depend on how many
// tokens there are.
struct narrow_layout {
  int row_tiles = 1;  // of a warp, of one matrix
  int slices = k_product_warps;
  std::int64_t blocks = 0;  // of one token tile

  constexpr int block_rows() const { return k_product_warps / slices * row_tiles * k_row_tile; }
};

// Blocks that a card is to have at once: one and a half a multiprocessor, since all of them then start in one
// wave.
inline constexpr std::int64_t k_blocks_wanted = k_multiprocessors * 3 / 2;

// As few slices as leave enough blocks, when `products` of `rows` rows each are under way at the same time.
constexpr int slices_of(std::int64_t rows, int group_rows, std::int64_t products) {
  int slices = k_product_warps;
  while (slices > 1 &&
         divide_up(rows, k_product_warps / (slices / 2) * group_rows) * products >= k_blocks_wanted) {
    slices /= 2;
  }
  return slices;
}

constexpr narrow_layout narrow_layout_of(std::int64_t rows) {
  narrow_layout out;
  if (divide_up(rows, 2 * k_row_tile) >= k_multiprocessors) out.row_tiles = 2;
  out.slices = slices_of(rows, out.row_tiles * k_row_tile, 1);
  out.blocks = divide_up(rows, out.block_rows());
  return out;
}

// What the warps of a group add up at the end.
constexpr std::size_t narrow_shared_bytes(int row_tiles, int token_tiles) {
  return sizeof(float) * 4 * 32 * k_product_warps * static_cast<std::size_t>(row_tiles * token_tiles);
}
static_assert(narrow_shared_bytes(2, k_few_tiles) <= 48 << 10);

// Four values of 16 bytes a thread.
inline constexpr std::int32_t k_pack_threads = 256;

constexpr launch_shape pack_shape(std::int64_t rows, std::int64_t cols) {
  return {.grid_x = divide_up(rows * packed_depth(cols) / 8, k_pack_threads), .threads = k_pack_threads};
}

constexpr launch_shape narrow_shape(std::int64_t row_blocks, std::int64_t token_blocks, int row_tiles,
                                    int token_tiles) {
  return {.grid_x = row_blocks * token_blocks,
          .threads = k_product_threads,
          .shared_bytes = narrow_shared_bytes(row_tiles, token_tiles)};
}

constexpr launch_shape wide_shape(std::int64_t row_blocks, std::int64_t token_blocks, int parts) {
  return {.grid_x = row_blocks * token_blocks,
          .threads = k_product_threads,
          .shared_bytes = wide_shared_bytes(parts)};
}

}  // namespace weir::kernels::cuda
