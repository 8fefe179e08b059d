// What products ask of the hardware.
#include <catch2/catch.hpp>

#include "kernels/cuda/experts_config.hpp"

namespace {

using namespace weir::kernels::cuda;

}  // namespace

TEST_CASE("products of few tokens fill the card where the matrix is large enough", "[cuda]") {
  for (const std::int64_t rows : {1, 16, 288, 2304, 4096, 7168, 12288, 163840, 1 << 20}) {
    const narrow_layout layout = narrow_layout_of(rows);
    INFO(rows << " rows: " << layout.blocks << " blocks, " << layout.slices << " slices");
    CHECK(k_product_warps % layout.slices == 0);
    CHECK(layout.blocks * layout.block_rows() >= rows);
    CHECK((layout.blocks - 1) * layout.block_rows() < rows);
    CHECK(fits(narrow_shape(layout.blocks, 1, layout.row_tiles, k_few_tiles)));
    if (rows >= 2 * k_multiprocessors * k_row_tile) CHECK(layout.blocks >= k_multiprocessors);
  }
  CHECK(narrow_layout_of(2304).blocks == 144);
  CHECK(narrow_layout_of(163840).slices == 1);
  // Sixteen experts at once need fewer warps for each row.
  CHECK(slices_of(3072, k_row_tile, 16) < slices_of(3072, k_row_tile, 1));
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

TEST_CASE("experts: a tile for every pick that there can be, in parts of the workspace that do not overlap",
          "[cuda]") {
  for (const std::int64_t rows : {1, 8, 9, 33, 2048, 5000, 1 << 20}) {
    for (const int parts : {1, 3}) {
      for (const bool tensor : {true, false}) {
        const experts_sizes s{rows, 896, 16, 3584, 3072};
        const experts_layout l = experts_layout_of(s, tensor, parts);
        const std::int64_t picks = at_most(rows, k_pass_rows) * s.per_token;
        INFO(rows << " rows, " << parts << " parts, " << l.tile_tokens << " tokens a tile");
        // The worst: one expert has all that others do not need to have a tile.
        const std::int64_t others = at_most(s.experts - 1, picks - 1);
        CHECK(l.tile_limit >= others + divide_up(picks - others, l.tile_tokens));
        CHECK((l.tile_limit + 1) * l.tile_tokens >= picks);
        CHECK(l.wide == (tensor && rows > 32 && picks >= k_wide_picks * s.experts));
        CHECK(l.tiles >= l.order + static_cast<std::size_t>(picks) * 4);
        CHECK(l.packed >= l.tiles + static_cast<std::size_t>(l.tile_limit) * sizeof(expert_tile));
        CHECK(l.out >= l.hidden + static_cast<std::size_t>(picks * s.width) * (l.wide ? 2U : 4U));
        CHECK(l.bytes >= l.out + static_cast<std::size_t>(picks * s.dim) * 4);
        CHECK(l.bytes == experts_layout_of({at_most(rows, 2048), 896, 16, 3584, 3072}, tensor, parts).bytes);
        CHECK(fits(wide_shape(divide_up(s.dim, k_wide_rows), l.tile_limit, parts)));
        CHECK(fits(narrow_shape(s.width / k_row_tile, l.tile_limit, 2, k_few_tiles)));
        CHECK(fits(combine_shape(at_most(rows, k_pass_rows), s.dim)));
        CHECK(fits(plain_picks_shape(picks, s.width)));
      }
    }
  }
}
