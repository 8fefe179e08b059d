#include "loadtest/arrivals.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

namespace weir::loadtest {
namespace {

TEST_CASE("arrivals ascend, keep their mean rate and repeat with their seed") {
  const auto a = poisson_arrivals_s(10'000, 50, 3);
  CHECK(std::is_sorted(a.begin(), a.end()));
  CHECK(a.front() > 0);
  CHECK(a.back() == Approx(200).epsilon(0.05));
  CHECK(a == poisson_arrivals_s(10'000, 50, 3));
  CHECK(a != poisson_arrivals_s(10'000, 50, 4));
}

}  // namespace
}  // namespace weir::loadtest
