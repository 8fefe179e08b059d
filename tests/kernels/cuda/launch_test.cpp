// What is asked of the hardware: every shape within its limits, from nothing to the largest sizes.
#include <catch2/catch.hpp>

#include "kernels/cuda/elementwise_config.hpp"

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
