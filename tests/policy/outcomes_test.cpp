#include "policy/outcomes.hpp"

#include <catch2/catch.hpp>

namespace weir::policy {
namespace {

constexpr auto k_short = request_class::up_to_2k;
constexpr auto k_long = request_class::beyond;

void note(outcome_estimator& to, int count, result_seen seen, double now_s = 0) {
  for (int i = 0; i < count; ++i) to.note(seen, now_s);
}

}  // namespace

TEST_CASE("classes of requests") {
  CHECK(class_of(0) == request_class::up_to_2k);
  CHECK(class_of(2'048) == request_class::up_to_2k);
  CHECK(class_of(2'049) == request_class::up_to_16k);
  CHECK(class_of(16'385) == request_class::up_to_128k);
  CHECK(class_of(131'073) == request_class::beyond);
}

// 100 of the prior beside what was seen: 80 results, 40 whole: (40 + 100) / (80 + 100), of which 0.95 are
// enough.
TEST_CASE("success is the share of whole results, by class") {
  outcome_estimator seen;
  CHECK(seen.view(k_short, 0).success == 1);
  note(seen, 40, {.of = k_short, .whole = true, .within_contract = true});
  note(seen, 40, {.of = k_short, .whole = false});
  CHECK(seen.view(k_short, 0).success == Approx(140.0 / 180.0 / 0.95));
  CHECK(seen.view(k_long, 0).success == 1);
  note(seen, 100'000, {.of = k_short, .whole = false});
  CHECK(seen.view(k_short, 0).success == k_success_min);
  outcome_estimator outage;
  note(outage, 5, {.of = k_short, .whole = false});
  CHECK(outage.view(k_short, 0).success == 1);
}

// 80 results predicted at 0.9 of which 20 kept their contract: (20 + 100) / (72 + 100).
TEST_CASE("calibration compares kept contracts with predicted ones") {
  outcome_estimator seen;
  note(seen, 20, {.of = k_short, .whole = true, .within_contract = true, .predicted = 0.9});
  note(seen, 60, {.of = k_short, .whole = true, .within_contract = false, .predicted = 0.9});
  CHECK(seen.view(k_short, 0).calibration == Approx(120.0 / 172.0));
  outcome_estimator better;
  note(better, 800, {.of = k_short, .whole = true, .within_contract = true, .predicted = 0.25});
  CHECK(better.view(k_short, 0).calibration == k_calibration_max);
  outcome_estimator as_predicted;
  note(as_predicted, 50, {.of = k_short, .whole = true, .within_contract = true, .predicted = 1});
  CHECK(as_predicted.view(k_short, 0).calibration == Approx(1));
}

TEST_CASE("a bad past fades, so that the target is tried again") {
  outcome_estimator seen;
  note(seen, 80, {.of = k_short, .whole = false});
  CHECK(seen.view(k_short, 0).success == Approx(100.0 / 180.0 / 0.95));
  CHECK(seen.view(k_short, k_half_life_s).success == Approx(100.0 / 140.0 / 0.95));
  CHECK(seen.view(k_short, 20 * k_half_life_s).success == Approx(1).margin(1e-4));
  note(seen, 1, {.of = k_short, .whole = true, .within_contract = true}, k_half_life_s);
  CHECK(seen.view(k_short, k_half_life_s).success == Approx(101.0 / 141.0 / 0.95));
}

// 3 accepted of 5 results that cost 2 cents each: 10 cents / 3.
TEST_CASE("what an accepted result costs counts those that were not") {
  outcome_estimator seen;
  note(seen, 3, {.of = k_long, .whole = true, .within_contract = true, .cost_usd = 0.02});
  note(seen, 1, {.of = k_long, .whole = true, .within_contract = false, .cost_usd = 0.02});
  note(seen, 1, {.of = k_long, .whole = false, .cost_usd = 0.02});
  CHECK(seen.total(k_long).results == 5);
  CHECK(seen.total(k_long).accepted == 3);
  CHECK(seen.total(k_long).usd_per_accepted() == Approx(0.1 / 3));
  CHECK(seen.total(k_short).usd_per_accepted() == 0);
}

}  // namespace weir::policy
