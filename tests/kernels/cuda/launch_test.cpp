// What is asked of the hardware: every shape within its limits, from nothing to the largest sizes.
#include <catch2/catch.hpp>

#include "kernels/cuda/elementwise_config.hpp"
#include "kernels/cuda/gather_config.hpp"
#include "kernels/cuda/norm_config.hpp"
#include "kernels/cuda/residual_config.hpp"
#include "kernels/cuda/router_config.hpp"
#include "kernels/cuda/short_conv_config.hpp"

namespace {

using namespace weir::kernels::cuda;

}  // namespace

TEST_CASE("elementwise operations cover their arrays in two waves at most", "[cuda]") {
  CHECK(elementwise_shape(0).grid_x == 0);
  CHECK(elementwise_shape(1).grid_x == 1);
  CHECK(elementwise_shape(1024).grid_x == 1);
  CHECK(elementwise_shape(1025).grid_x == 2);
  CHECK(elementwise_shape(std::int64_t{1} << 40).grid_x == k_elementwise_blocks_max);
  CHECK(fits(elementwise_shape(std::int64_t{1} << 40)));
}

TEST_CASE("a shape beyond the hardware's limits is seen", "[cuda]") {
  const launch_shape good{.grid_x = 1, .threads = 128};
  CHECK(fits(good));
  launch_shape bad = good;
  bad.grid_x = k_grid_x_max + 1;
  CHECK_FALSE(fits(bad));
  bad = good;
  bad.grid_y = 65536;
  CHECK_FALSE(fits(bad));
  bad = good;
  bad.threads = 1025;
  CHECK_FALSE(fits(bad));
  bad = good;
  bad.shared_bytes = k_shared_bytes_sm80 + 1;
  CHECK_FALSE(fits(bad));
}

TEST_CASE("rows are covered from none to a million, within the limits of every card", "[cuda]") {
  const std::int32_t most = 1 << 20;
  for (const std::int32_t rows : {0, 1, 7, 8, 9, most}) {
    for (const std::int32_t dim : {1, 128, 512, 513, 7168, 1 << 20}) {
      INFO(rows << " rows of " << dim);
      for (const auto& shape : {norm_shape(rows, dim), row_part_shape(rows, dim), mix_shape(rows),
                                conv_shape(rows, dim, 4), conv_shape(rows, dim, 1)}) {
        CHECK(fits(shape));
        CHECK((shape.grid_x == 0) == (rows == 0));
      }
      const std::int64_t warps = norm_by_warp(dim) ? k_norm_warps : 1;
      CHECK(norm_shape(rows, dim).grid_x * warps >= rows);
      CHECK(static_cast<std::int64_t>(row_parts(dim)) * k_row_part >= dim);
      for (const std::int32_t width : {1, 4}) {
        const auto shape = conv_shape(rows, dim, width);
        CHECK(shape.grid_x * conv_rows(rows, dim, width) >= rows);
        CHECK(shape.grid_y * shape.threads * width >= dim);
      }
    }
  }
}

TEST_CASE("one row of decode is spread over multiprocessors, many rows share threads", "[cuda]") {
  CHECK(row_part_shape(1, 7168).grid_x == 7);
  CHECK(conv_rows(1, 4096, 4) == 1);
  CHECK(conv_rows(64, 12288, 4) == 1);
  CHECK(conv_rows(8192, 4096, 4) == k_conv_rows_max);
  CHECK(conv_rows(1 << 20, 12288, 4) == k_conv_rows_max);
}

TEST_CASE("the router's keys fit into shared memory", "[cuda]") {
  CHECK(fits(router_shape(1, 1)));
  CHECK(fits(router_shape(1 << 20, 896)));
  CHECK(fits(router_shape(1, k_router_experts_max)));
  CHECK(router_shape(1, 896).shared_bytes == 7168);
}
