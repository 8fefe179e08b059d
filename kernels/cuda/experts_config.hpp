// How the picks of a batch are laid out over the card, and where what the stages hand on lies in the
// workspace.
#pragma once

#include "kernels/cuda/plain_config.hpp"
#include "kernels/cuda/product_config.hpp"

namespace weir::kernels::cuda {

// Rows go through the stages in passes, which bounds the workspace: the outputs of every pick are kept until
// they are added in order. A pass of 2048 still gives an expert of 256 with 8 picks a token 64 tokens.
inline constexpr std::int64_t k_pass_rows = 2048;

// Tokens of an expert from which on, on average, tiles of many tokens pay: below, most of a tile is empty.
inline constexpr std::int64_t k_wide_picks = 16;

inline constexpr std::int32_t k_sort_threads = 1024;  // one block sorts all picks of a pass
// Experts that one block counts in its shared memory, ten times what is known of.
inline constexpr std::int32_t k_sort_experts_max = 8192;
inline constexpr std::int32_t k_combine_threads = 256;

// A run of picks of one expert, as large as a tile.
struct alignas(16) expert_tile {
  std::int32_t expert;
  std::int32_t first;  // in the order of picks by expert
  std::int32_t count;  // 0: none
  std::int32_t unused;
};

struct experts_layout {
  bool wide = false;
  int tile_tokens = 0;
  std::int64_t tile_limit = 0;  // tiles there can be
  // Offsets in the workspace.
  std::size_t order = 0;   // [picks] of int32: picks by expert
  std::size_t tiles = 0;   // [tile_limit]
  std::size_t packed = 0;  // wide: x as bf16 parts
  std::size_t hidden = 0;  // [picks, width] of float; wide: bf16 parts
  std::size_t out = 0;     // [picks, dim] of float
  std::size_t bytes = 0;
};

struct experts_sizes {
  std::int64_t rows;
  std::int64_t experts;
  std::int64_t per_token;
  std::int64_t dim;
  std::int64_t width;
};

// `tensor`: both products of one type that tensor cores take, so that they may be wide.
constexpr experts_layout experts_layout_of(const experts_sizes& s, bool tensor, int parts) {
  constexpr std::size_t k_align = 256;
  experts_layout out;
  const std::int64_t rows = at_most(s.rows, k_pass_rows);
  const std::int64_t picks = rows * s.per_token;
  out.wide = tensor && rows > k_few_tokens && picks >= k_wide_picks * s.experts;
  out.tile_tokens = out.wide              ? wide_tokens(parts)
                    : rows > k_token_tile ? static_cast<int>(k_few_tokens)
                                          : k_token_tile;
  out.tile_limit = at_most(s.experts, picks) + picks / out.tile_tokens;
  const auto take = [&](std::size_t bytes) {
    const std::size_t at = out.bytes;
    out.bytes += (bytes + k_align - 1) / k_align * k_align;
    return at;
  };
  const auto floats = [](std::int64_t count) { return sizeof(float) * static_cast<std::size_t>(count); };
  out.order = take(floats(picks));
  out.tiles = take(sizeof(expert_tile) * static_cast<std::size_t>(out.tile_limit));
  out.packed = take(out.wide ? packed_bytes(rows, s.dim, parts) : 0);
  out.hidden = take(out.wide ? packed_bytes(picks, s.width, parts) : floats(picks * s.width));
  out.out = take(floats(picks * s.dim));
  return out;
}

constexpr std::size_t sort_shared_bytes(std::int64_t experts) {
  return sizeof(std::int32_t) * static_cast<std::size_t>(experts + 32);  // counts, and the sums of warps
}
static_assert(sort_shared_bytes(k_sort_experts_max) <= 48 << 10);

constexpr launch_shape combine_shape(std::int64_t rows, std::int64_t dim) {
  return {.grid_x = divide_up(rows * dim, k_combine_threads), .threads = k_combine_threads};
}

constexpr launch_shape plain_picks_shape(std::int64_t picks, std::int64_t rows) {
  return {.grid_x = divide_up(rows, k_plain_warps) * picks, .threads = 32 * k_plain_warps};
}

}  // namespace weir::kernels::cuda
