#include "loadtest/histogram.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace weir::loadtest {
namespace {

TEST_CASE("quantiles are within one percent of the sorted values") {
  constexpr std::uint64_t k_seed = 7;
  INFO("seed " << k_seed);
  std::mt19937_64 random(k_seed);
  std::lognormal_distribution<double> spread(-4.0, 1.5);
  histogram h;
  std::vector<double> values;
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(spread(random) + 1e-3);
    h.add(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double q : {0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto index = static_cast<std::size_t>(std::ceil(q * 20'000)) - 1;
    INFO("q " << q);
    CHECK(h.quantile_s(q) == Approx(values[index]).epsilon(0.01));
  }
}

TEST_CASE("edges: nothing, zero, negative, beyond the range") {
  histogram h;
  CHECK(h.quantile_s(0.5) == 0);
  CHECK(h.mean_s() == 0);
  h.add(-1);
  h.add(0);
  CHECK(h.quantile_s(1) == 0);
  h.add(1e9);
  CHECK(h.count() == 3);
  CHECK(h.max_s() < 70'000);
  CHECK(h.quantile_s(1) == Approx(h.max_s()).epsilon(0.01));
}

TEST_CASE("merging equals adding") {
  histogram a;
  histogram b;
  histogram both;
  for (int i = 1; i <= 100; ++i) {
    (i % 2 == 0 ? a : b).add(i * 1e-3);
    both.add(i * 1e-3);
  }
  a.merge(b);
  CHECK(a.count() == both.count());
  CHECK(a.mean_s() == Approx(both.mean_s()));
  for (const double q : {0.1, 0.5, 0.99}) CHECK(a.quantile_s(q) == both.quantile_s(q));
}

}  // namespace
}  // namespace weir::loadtest
