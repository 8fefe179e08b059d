#include "kernels/cpu/tiles.hpp"

#include <algorithm>

namespace weir::kernels::cpu {

void walk_tiles(const product_range& p, std::int64_t column_bytes, std::int64_t begin, std::int64_t end,
                const tile_set& tiles) {
  const std::int64_t tile_count = (p.row_count + tiles.rows_max - 1) / tiles.rows_max;
  const auto ahead_each = static_cast<int>((k_tile_cols + tile_count - 1) / tile_count);
  for (std::int64_t column = begin; column < end;) {
    const std::int64_t left = end - column;
    const int log_cols = left >= k_tile_cols ? 2 : left >= 2 ? 1 : 0;
    const std::byte* group = static_cast<const std::byte*>(p.b->data) + column * column_bytes;
    const std::byte* next = group + (left < 2 * k_tile_cols ? 0 : k_tile_cols) * column_bytes;
    for (std::int64_t i = 0; i < tile_count; ++i) {
      const std::int64_t row = p.row_count * i / tile_count;
      const std::int64_t rows = p.row_count * (i + 1) / tile_count - row;
      const int fetched = std::min(k_tile_cols, static_cast<int>(i) * ahead_each);
      tiles.functions[(rows - 1) * 3 + log_cols](
          {p.rows + static_cast<std::size_t>(row) * p.row_bytes, p.row_bytes, group, column_bytes, column,
           p.b->cols, p.b, p.c + row * p.c_stride + column, p.c_stride, next + fetched * column_bytes,
           left < 2 * k_tile_cols ? 0 : std::min(ahead_each, k_tile_cols - fetched)});
    }
    column += std::int64_t{1} << log_cols;
  }
}

}  // namespace weir::kernels::cpu
