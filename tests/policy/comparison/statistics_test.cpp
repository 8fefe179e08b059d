#include "policy/comparison/statistics.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace weir::policy::comparison {

TEST_CASE("quantiles: the middle of two for a median, else the nearest rank") {
  struct row {
    const char* name;
    std::vector<double> sorted;
    double q;
    double value;
  };
  std::vector<double> to_2000(2000);
  std::iota(to_2000.begin(), to_2000.end(), 1);
  const row rows[] = {
      {"one value", {7}, 0.5, 7},
      {"one value, tail", {7}, 0.99, 7},
      {"odd", {1, 2, 10}, 0.5, 2},
      {"even", {1, 2, 10, 11}, 0.5, 6},
      {"95% of 4 is the last", {1, 2, 3, 4}, 0.95, 4},
      {"a whole rank: 1900 of 2000", to_2000, 0.95, 1900},
      {"a whole rank: 1980 of 2000", to_2000, 0.99, 1980},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    CHECK(quantile(r.sorted, r.q) == r.value);
  }
}

// Computed with whole numbers: the sum of C(n, k) q^k (1 - q)^(n - k) against alpha / 2.
TEST_CASE("ranks that bound a quantile") {
  struct row {
    std::size_t n;
    double q;
    confidence sure;
    std::size_t low, high;
  };
  using enum confidence;
  const row rows[] = {
      {0, 0.5, p95, 0, 0},         {1, 0.5, p95, 0, 0},           {5, 0.5, p95, 0, 0},
      {6, 0.5, p95, 1, 6},         {6, 0.5, p99, 0, 0},           {9, 0.5, p95, 2, 8},
      {9, 0.5, p99, 1, 9},         {10, 0.5, p95, 2, 9},          {10, 0.5, p99, 1, 10},
      {20, 0.5, p95, 6, 15},       {20, 0.5, p99, 4, 17},         {100, 0.5, p95, 40, 61},
      {100, 0.5, p99, 37, 64},     {5, 0.95, p95, 4, 0},          {100, 0.95, p95, 90, 100},
      {20, 0.95, p95, 17, 0},      {100, 0.99, p95, 97, 0},       {300, 0.99, p95, 293, 0},
      {400, 0.99, p95, 392, 400},  {300, 0.5, p95, 133, 168},     {1900, 0.5, p95, 907, 994},
      {1900, 0.5, p99, 894, 1007}, {1900, 0.95, p95, 1786, 1824}, {1900, 0.99, p95, 1872, 1890},
  };
  for (const auto& r : rows) {
    INFO("n " << r.n << " q " << r.q << (r.sure == p95 ? " 95%" : " 99%"));
    const auto ranks = quantile_ranks(r.n, r.q, r.sure);
    CHECK(ranks.low == r.low);
    CHECK(ranks.high == r.high);
  }
}

TEST_CASE("Wilson's interval of a share") {
  struct row {
    const char* name;
    std::int64_t hits, n;
    double low, high;
  };
  const row rows[] = {
      {"none of ten", 0, 10, 0, 0.27753279986},
      {"half of ten", 5, 10, 0.23659309051, 0.76340690949},
      {"all of ten", 10, 10, 0.72246720014, 1},
      {"20 of 2000", 20, 2000, 0.00648276788, 0.01539593846},
      {"85 of 2000", 85, 2000, 0.03450117971, 0.05225291855},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto in = share_interval(r.hits, r.n, confidence::p95);
    CHECK(*in.low == Approx(r.low).margin(1e-10));
    CHECK(*in.high == Approx(r.high).margin(1e-10));
  }
  CHECK(share_interval(0, 0, confidence::p95) == interval{});
}

TEST_CASE("the sign test is exact") {
  struct row {
    const char* name;
    std::int64_t up, down;
    double p;
  };
  const row rows[] = {
      {"no coin", 0, 0, 1},
      {"even", 5, 5, 1},
      {"3 of 7", 3, 4, 1},
      {"none of five: 2 / 32", 0, 5, 0.0625},
      {"one of ten: 22 / 1024", 1, 9, 0.021484375},
      {"15 of 95", 80, 15, 6.8127817099e-12},
      {"399 of 1899", 399, 1500, 1.33188362970e-149},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    CHECK(sign_test(r.up, r.down) == Approx(r.p));
    CHECK(sign_test(r.down, r.up) == Approx(r.p));
  }
}

TEST_CASE("a ratio of sums and its interval") {
  // a: 8 and 10, b: 6 and 6: ratio 2/3, residuals 2/3 and -2/3.
  const std::vector<double> a{8, 10}, b{6, 6};
  const auto found = ratio_of_sums(a, b);
  REQUIRE(found);
  CHECK(found->share == Approx(1.0 / 3));
  const double error = std::sqrt(2.0 / 1 * 2 * (4.0 / 9)) / 18;
  CHECK(*found->p95.low == Approx(1.0 / 3 - 1.959963984540054 * error));
  CHECK(*found->p99.high == Approx(1.0 / 3 + 2.5758293035489004 * error));
  CHECK_FALSE(ratio_of_sums(std::vector<double>{1}, std::vector<double>{1}));
  CHECK_FALSE(ratio_of_sums(std::vector<double>{0, 0}, std::vector<double>{1, 1}));
}

// What an interval promises, on samples of a distribution whose median, p95 and mean are known.
TEST_CASE("intervals hold what they promise") {
  const auto seed = Catch::rngSeed() == 0 ? 20'261'130U : Catch::rngSeed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> draw(0, 1);
  constexpr int k_samples = 2000;
  int median = 0, tail = 0, saving = 0;
  for (int i = 0; i < k_samples; ++i) {
    std::vector<double> a(200), b(200);
    for (std::size_t j = 0; j < a.size(); ++j) {
      const double size = draw(random);
      a[j] = size;
      b[j] = 0.7 * size * (0.5 + std::uniform_real_distribution<double>(0, 1)(random));
    }
    const auto saved = ratio_of_sums(a, b);
    saving += *saved->p95.low <= 0.3 && 0.3 <= *saved->p95.high ? 1 : 0;
    std::sort(a.begin(), a.end());
    const auto middle = quantile_interval(a, 0.5, confidence::p95);
    median += *middle.low <= 1 && 1 <= *middle.high ? 1 : 0;
    const auto high = quantile_interval(a, 0.95, confidence::p95);
    const double true_p95 = std::exp(1.6448536269514722);
    tail += *high.low <= true_p95 && true_p95 <= *high.high ? 1 : 0;
  }
  // At least 95% but for five standard deviations of 2000 trials (1%), upward what is conservative; a sum of
  // heavy tails approaches its normal law slowly.
  CHECK(median >= 1850);
  CHECK(tail >= 1850);
  CHECK(saving >= 1800);
}

}  // namespace weir::policy::comparison
