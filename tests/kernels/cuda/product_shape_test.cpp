// What products ask of the hardware.
#include <catch2/catch.hpp>

#include "kernels/cuda/plain_config.hpp"
#include "kernels/cuda/product_config.hpp"

namespace {

using namespace weir::kernels::cuda;

}  // namespace

TEST_CASE("products of few tokens fill the card where the matrix is large enough", "[cuda]") {
  for (const std::int64_t rows : {1, 16, 288, 2304, 4096, 7168, 12288, 163840, 1 << 20}) {
    const narrow_layout layout = narrow_layout_of(rows, 1);
    INFO(rows << " rows: " << layout.blocks << " blocks, " << layout.slices << " slices");
    CHECK(k_product_warps % layout.slices == 0);
    CHECK(layout.blocks * layout.block_rows() >= rows);
    CHECK((layout.blocks - 1) * layout.block_rows() < rows);
    CHECK(fits(narrow_shape(layout, 1, layout.row_tiles, k_few_tiles)));
    if (rows >= 2 * k_multiprocessors * k_row_tile) CHECK(layout.blocks >= k_multiprocessors);
  }
  CHECK(narrow_layout_of(2304, 1).blocks == 144);
  CHECK(narrow_layout_of(163840, 1).slices == 1);
  // Sixteen experts at once need fewer warps for each row.
  CHECK(narrow_layout_of(3072, 16).slices < narrow_layout_of(3072, 1).slices);
}

TEST_CASE("shapes of products stay within the hardware's limits", "[cuda]") {
  for (const std::int64_t tokens : {std::int64_t{1}, std::int64_t{33}, std::int64_t{1} << 20}) {
    for (const int parts : {1, 3}) {
      const auto shape =
          wide_shape(divide_up(163840, k_wide_rows), divide_up(tokens, wide_tokens(parts)), parts);
      CHECK(fits(shape));
      CHECK(shape.grid_x * k_wide_rows * wide_tokens(parts) >= tokens * 163840);
    }
    CHECK(fits(pack_shape(tokens, 33792)));
    CHECK(fits(plain_shape(163840, tokens)));
  }
  CHECK(pack_shape(0, 64).grid_x == 0);
  CHECK(packed_depth(1) == k_stage_depth);
  CHECK(packed_bytes(3, 129, 3) == 3 * 3 * 256 * 2);
}
