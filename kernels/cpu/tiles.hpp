// The walk over tiles that every product shares: columns in groups of four, for each of them all rows in
// tiles of nearly equal height.
//
// Weights come from memory in one of two ways, whichever is faster. For one row, or two where the sums cost
// little, a tile reads column after column: one long run of addresses over all groups, which the processor's
// own prefetching follows at the speed of the memory. With more rows the columns of a group are read
// together, so that a row's values serve all of them, and the next group is fetched ahead meanwhile, evenly
// over the tiles of rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/product.hpp"

namespace weir::kernels::cpu {

inline constexpr int k_tile_cols = 4;
static_assert(k_column_unit % k_tile_cols == 0);

struct tile_place {
  const std::byte* rows;
  std::size_t row_bytes;
  const std::byte* weights;   // the first column's
  std::int64_t column_bytes;  // from one column's weights to the next one's
  std::int64_t column;
  std::int64_t depth;
  const matrix* b;
  float* c;
  std::int64_t c_stride;
  const std::byte* ahead;  // weights to be fetched for later, `ahead_columns` of them
  int ahead_columns;
};

// Into the second-level cache. The address need not exist. Always inlined: a call that only does this is
// removed as one without effect.
__attribute__((always_inline)) inline void fetch(const void* place) {
  __builtin_prefetch(place, 0, 2);
}

using tile_function = void (*)(const tile_place&);

// functions[(rows - 1) * 3 + i]: tiles of `rows` rows and 1, 2 or 4 columns for i = 0, 1, 2.
struct tile_set {
  int rows_max;
  const tile_function* functions;
};

void walk_tiles(const product_range& p, std::int64_t column_bytes, std::int64_t begin, std::int64_t end,
                const tile_set& tiles);

}  // namespace weir::kernels::cpu
