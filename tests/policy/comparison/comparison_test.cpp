// A recorded run of 2,000 pairs whose every figure can be computed by hand.
//
// Pairs 1..1900, in which both sides answered; i is the pair's number:
//   first token   primary i ms; shadow i / 2 + 200 ms; so the difference is 200 - i / 2 ms
//   token gap     primary 20 ms; shadow 19 ms where i is odd, else 21 ms
//   to the end    primary 10 i ms; shadow 10 i + 5000 ms
//   price         primary $0.008 where i is odd, else $0.010; shadow $0.006; 1000 prompt and 500 output
//   tokens agreement     exact where 10 divides i, else 0.8 of the words; JSON where 5 divides i, equal where
//   10 does;
//                 tools where 19 divides i, equal where 38 does
// Pairs 1901..1980: the primary failed; 1981..1995: the shadow did; 1996..2000: both did; nothing measured.
//
// Ranks of 1900 values, by the exact binomial (statistics_test.cpp): median between the 950th and the 951st,
// in 907..994 at 95% and 894..1007 at 99%; p95 the 1805th, in 1786..1824; p99 the 1881st, in 1872..1890.
#include "policy/comparison/comparison.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "policy/comparison/verdict.hpp"

namespace weir::policy::comparison {

namespace {

constexpr std::int64_t k_ms = 1'000'000;
constexpr std::int64_t k_answered = 1900;
constexpr std::int64_t k_noon_s = 1'796'040'000;

pair answered(std::int64_t i) {
  const bool odd = i % 2 == 1;
  pair p{.at_s = k_noon_s + i, .model = "kimi", .tenant = "acme", .key = "ci", .streamed = true};
  p.primary = {.target = "own",
               .status = 200,
               .prompt_tokens = 1000,
               .cached_tokens = 800,
               .output_tokens = 500,
               .price = odd ? 8'000'000 : 10'000'000,
               .unpriced = false,
               .ttft_ns = i * k_ms,
               .itl_mean_ns = 20 * k_ms,
               .end_to_end_ns = 10 * i * k_ms};
  p.shadow = {.target = "hosted",
              .status = 200,
              .prompt_tokens = 1000,
              .output_tokens = 500,
              .price = 6'000'000,
              .unpriced = false,
              .ttft_ns = i * k_ms / 2 + 200 * k_ms,
              .itl_mean_ns = (odd ? 19 : 21) * k_ms,
              .end_to_end_ns = 10 * i * k_ms + 5000 * k_ms};
  p.alike = {.compared = true, .exact = i % 10 == 0, .overlap = i % 10 == 0 ? 1 : 0.8};
  if (i % 5 == 0) p.alike.json = i % 10 == 0 ? likeness::equal : likeness::different;
  if (i % 19 == 0) p.alike.tools = i % 38 == 0 ? likeness::equal : likeness::different;
  return p;
}

pair failed(std::int64_t i) {
  pair p{.at_s = k_noon_s + i, .model = "kimi", .tenant = "acme", .key = "ci", .streamed = true};
  const bool primary = i <= 1980 || i > 1995;
  const bool shadow = i > 1980;
  p.primary = {.target = "own", .end = primary ? side_end::failed : side_end::ok, .status = 500};
  p.shadow = {.target = "hosted", .end = shadow ? side_end::timed_out : side_end::ok};
  return p;
}

std::vector<pair> recorded_run() {
  std::vector<pair> out;
  for (std::int64_t i = 1; i <= 2000; ++i) out.push_back(i <= k_answered ? answered(i) : failed(i));
  return out;
}

struct expected_measure {
  const char* name;
  const measure& found;
  double median, median_low, median_high, p95, p95_low, p95_high, p99, p99_low, p99_high;
};

void check(const expected_measure& want) {
  INFO(want.name);
  CHECK(want.found.n == k_answered);
  CHECK(want.found.median == Approx(want.median));
  CHECK(*want.found.median_in.low == Approx(want.median_low));
  CHECK(*want.found.median_in.high == Approx(want.median_high));
  CHECK(want.found.p95 == Approx(want.p95));
  CHECK(*want.found.p95_in.low == Approx(want.p95_low));
  CHECK(*want.found.p95_in.high == Approx(want.p95_high));
  CHECK(want.found.p99 == Approx(want.p99));
  CHECK(*want.found.p99_in.low == Approx(want.p99_low));
  CHECK(*want.found.p99_in.high == Approx(want.p99_high));
}

}  // namespace

TEST_CASE("medians and tails of 2,000 pairs equal the table computed by hand") {
  const auto found = compare(recorded_run());
  CHECK(found.model == "kimi");
  CHECK(found.primary == "own");
  CHECK(found.shadow == "hosted");
  CHECK(found.pairs == 2000);
  CHECK(found.first_s == k_noon_s + 1);
  CHECK(found.last_s == k_noon_s + 2000);
  const expected_measure table[] = {
      {"first token, primary: rank", found.ttft_ms.primary, 950.5, 907, 994, 1805, 1786, 1824, 1881, 1872,
       1890},
      {"first token, shadow: rank / 2 + 200", found.ttft_ms.shadow, 675.25, 653.5, 697, 1102.5, 1093, 1112,
       1140.5, 1136, 1145},
      {"token gap, primary", found.itl_ms.primary, 20, 20, 20, 20, 20, 20, 20, 20, 20},
      {"token gap, shadow: 950 of 19, then 950 of 21", found.itl_ms.shadow, 20, 19, 21, 21, 21, 21, 21, 21,
       21},
      {"to the end, primary: 10 rank", found.end_to_end_ms.primary, 9505, 9070, 9940, 18'050, 17'860, 18'240,
       18'810, 18'720, 18'900},
      {"to the end, shadow: 10 rank + 5000", found.end_to_end_ms.shadow, 14'505, 14'070, 14'940, 23'050,
       22'860, 23'240, 23'810, 23'720, 23'900},
  };
  for (const auto& row : table) check(row);
}

TEST_CASE("differences within 2,000 pairs equal the table computed by hand") {
  const auto found = compare(recorded_run());
  struct row {
    const char* name;
    const difference& found;
    double median, p95_low, p95_high, p99_low, p99_high;
    std::int64_t more, less;
  };
  const row table[] = {
      // Ascending, the difference of rank r is that of i = 1901 - r; it is 0 at i = 400.
      {"first token: 200 - i / 2", found.ttft_ms.between, -275.25, -297, -253.5, -303.5, -247, 399, 1500},
      {"token gap: as often -1 as 1", found.itl_ms.between, 0, -1, 1, -1, 1, 950, 950},
      {"to the end: 5000", found.end_to_end_ms.between, 5000, 5000, 5000, 5000, 5000, 1900, 0},
  };
  for (const auto& r : table) {
    INFO(r.name);
    CHECK(r.found.n == k_answered);
    CHECK(r.found.median == Approx(r.median));
    CHECK(*r.found.p95.low == Approx(r.p95_low));
    CHECK(*r.found.p95.high == Approx(r.p95_high));
    CHECK(*r.found.p99.low == Approx(r.p99_low));
    CHECK(*r.found.p99.high == Approx(r.p99_high));
    CHECK(r.found.more == r.more);
    CHECK(r.found.less == r.less);
  }
}

TEST_CASE("prices, failures and agreement of 2,000 pairs equal the table computed by hand") {
  const auto found = compare(recorded_run());
  CHECK(found.price.n == k_answered);
  CHECK(found.price.primary.total == 17'100'000'000);  // 950 * $0.008 + 950 * $0.010
  CHECK(found.price.shadow.total == 11'400'000'000);   // 1900 * $0.006
  CHECK(found.price.primary.tokens == 2'850'000);
  CHECK(found.price.primary.usd_per_mtok() == Approx(6));
  CHECK(found.price.shadow.usd_per_mtok() == Approx(4));
  REQUIRE(found.price.shadow_saves);
  CHECK(found.price.shadow_saves->share == Approx(1.0 / 3));
  // Residuals of 1900 pairs: two thirds of a tenth of a cent, in either direction.
  const double error = std::sqrt(1900.0 / 1899 * 1900) * (2.0 / 3000) / 17.1;
  CHECK(*found.price.shadow_saves->p95.low == Approx(1.0 / 3 - 1.959963984540054 * error));
  CHECK(*found.price.shadow_saves->p95.high == Approx(1.0 / 3 + 1.959963984540054 * error));

  const auto& r = found.reliability;
  CHECK(r.primary_fails.hits == 85);
  CHECK(*r.primary_fails.in.low == Approx(0.03450117971));
  CHECK(*r.primary_fails.in.high == Approx(0.05225291855));
  CHECK(r.shadow_fails.hits == 20);
  CHECK(*r.shadow_fails.in.low == Approx(0.00648276788));
  CHECK(*r.shadow_fails.in.high == Approx(0.01539593846));
  CHECK(r.only_primary_failed == 80);
  CHECK(r.only_shadow_failed == 15);
  CHECK(r.p_value == Approx(6.8127817099e-12));
  CHECK(r.primary[static_cast<std::size_t>(side_end::failed)] == 85);
  CHECK(r.shadow[static_cast<std::size_t>(side_end::timed_out)] == 20);

  CHECK(found.alike.exact.hits == 190);
  CHECK(found.alike.exact.n == 1900);
  CHECK(*found.alike.exact.in.low == Approx(0.08730716720));
  CHECK(*found.alike.exact.in.high == Approx(0.11430702554));
  CHECK(found.alike.overlap.median == Approx(0.8));
  CHECK(found.alike.json.hits == 190);
  CHECK(found.alike.json.n == 380);
  CHECK(found.alike.tools.hits == 50);
  CHECK(found.alike.tools.n == 100);
}

TEST_CASE("the verdict on 2,000 pairs in words") {
  struct row {
    winner who;
    sureness how;
    const char* words;
  };
  using enum winner;
  const row table[] = {
      {shadow, sureness::sure,
       "hosted, by 33.3% (95% interval 33.0% to 33.7%), sure. A request cost $0.009000 at own and $0.006000 "
       "at "
       "hosted; a million tokens $6.00 and $4.00."},
      {shadow, sureness::sure,
       "hosted, by 275 ms in the median pair (95% interval 254 ms to 297 ms), sure. Medians: own 950 ms, "
       "hosted "
       "675 ms."},
      {none, sureness::unknown,
       "no difference can be told from 1900 pairs (95% interval -1.00 ms to 1.00 ms). Medians: own 20.0 ms, "
       "hosted 20.0 ms."},
      {primary, sureness::sure,
       "own, by 5000 ms in the median pair (95% interval 5000 ms to 5000 ms), sure. Medians: own 9505 ms, "
       "hosted 14.5 s."},
      {primary, sureness::sure, "own, sure: own takes 18.8 s or more, hosted 23.8 s."},
      {shadow, sureness::sure,
       "hosted, sure (McNemar p below 0.001). own fails 4.25% of requests (85 of 2000; 95% interval 3.45% to "
       "5.23%), hosted fails 1.00% of requests (20 of 2000; 95% interval 0.648% to 1.54%)."},
      {none, sureness::unknown,
       "10.0% of 1900 pairs are the same to the byte (95% interval 8.73% to 11.4%); the median pair shares "
       "80.0% "
       "of its words. JSON answers are equal in 50.0% of 380 pairs that have any. Tool calls are equal in "
       "50.0% "
       "of 100 pairs that have any."},
  };
  const auto found = verdict(compare(recorded_run()));
  REQUIRE(found.size() == std::size(table));
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO(found[i].question);
    CHECK(found[i].who == table[i].who);
    CHECK(found[i].how == table[i].how);
    CHECK(found[i].words == table[i].words);
  }
}

TEST_CASE("the other way round it is the other side") {
  auto run = recorded_run();
  for (auto& p : run) std::swap(p.primary, p.shadow);
  const auto found = verdict(compare(run));
  const winner who[] = {winner::primary, winner::primary, winner::none, winner::shadow,
                        winner::shadow,  winner::primary, winner::none};
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO(found[i].question << ": " << found[i].words);
    CHECK(found[i].who == who[i]);
  }
  // Now the primary's sum is the smaller: it still costs a third less, not a half.
  CHECK(found[0].words.starts_with("hosted, by 33.3% (95% interval 33.0% to 33.7%), sure."));
  CHECK(found[1].words.starts_with("hosted, by 275 ms in the median pair (95% interval 254 ms to 297 ms)"));
}

TEST_CASE("what cannot be told is said to be so") {
  std::vector<pair> run;
  CHECK(verdict(compare(run)).front().who == winner::none);
  for (std::int64_t i = 1; i <= 5; ++i) run.push_back(answered(i));
  const auto five = verdict(compare(run));
  CHECK(five[1].words.starts_with("no difference can be told from 5 pairs (with no interval)."));
  CHECK(five[4].words.find("too few pairs") != std::string::npos);
  CHECK(five[5].words.starts_with("no difference can be told from 5 pairs."));

  for (auto& p : run) p.primary.unpriced = true;
  CHECK(verdict(compare(run))
            .front()
            .words.starts_with("cannot be told: no full price per token is set for own (targets[].price)"));
  for (auto& p : run) p.shadow.unpriced = true;
  CHECK(verdict(compare(run)).front().words.find("for own and hosted") != std::string::npos);

  // Nine of ten differences in one direction: 95% says so, 99% does not.
  run.clear();
  for (std::int64_t i = 1; i <= 10; ++i) {
    run.push_back(answered(1));
    run.back().shadow.ttft_ns = (i == 1 ? 2 : -i) * k_ms + 100 * k_ms;
    run.back().primary.ttft_ns = 100 * k_ms;
  }
  CHECK(verdict(compare(run))[1].how == sureness::likely);
}

TEST_CASE("the worst pairs come first, and pairs are kept apart by targets") {
  auto run = recorded_run();
  const auto first = worst(run, 3);
  REQUIRE(first.size() == 3);
  // Where one side failed: the newest.
  CHECK(run[first[0]].at_s == k_noon_s + 1995);
  const std::span<const pair> both(run.data(), k_answered);
  const auto differing = worst(both, 5000);
  CHECK(differing.size() == 1710);  // all but the 190 that are the same
  CHECK(both[differing.front()].at_s == k_noon_s + 1899);

  run[3].shadow.target = "other";
  run[4].model = "k3";
  run[5].model = "k3";
  const auto groups = by_targets(run);
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].size() == 1997);
  CHECK(groups[1].front().shadow.target == "other");
  CHECK(groups[2].size() == 2);
}

}  // namespace weir::policy::comparison
