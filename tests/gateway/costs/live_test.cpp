#include "gateway/costs/live.hpp"

#include <catch2/catch.hpp>

#include "tests/policy/economics/samples.hpp"

namespace weir::gateway::costs {
namespace {

using policy::economics::k3_on_one_node;

constexpr std::int64_t k_start_s = 1'796'040'000;
constexpr std::int64_t k_day_s = 86'400;
constexpr ledger::hour_number k_hour = k_start_s / 3600;

// Two days: 4,800 requests, 100 an hour on average and 300 in the busiest one; 1,200 went to the API.
ledger::traffic_summary two_days() {
  ledger::traffic_summary out{.since_s = k_start_s,
                              .until_s = k_start_s + 2 * k_day_s,
                              .requests_by_hour = {{k_hour, 250}, {k_hour + 7, 300}},
                              .by_target = {}};
  out.by_target[{0, "kimi", "r1"}] = {.hosted = false,
                                      .requests = 3'599,
                                      .accepted = 3'239,
                                      .failed = 30,
                                      .retried = 40,
                                      .local_only = 480,
                                      .prompt_tokens = 36'000'000,
                                      .known_tokens = 30'000'000,
                                      .cached_tokens = 24'000'000,
                                      .output_tokens = 1'800'000};
  out.by_target[{0, "kimi", "moonshot"}] = {.hosted = true,
                                            .requests = 1'200,
                                            .accepted = 1'140,
                                            .prompt_tokens = 12'000'000,
                                            .known_tokens = 12'000'000,
                                            .cached_tokens = 11'520'000,
                                            .output_tokens = 600'000,
                                            .cost = 5'000'000'000};
  out.by_target[{0, "kimi", ""}] = {.requests = 1, .failed = 1};
  return out;
}

TEST_CASE("load, lengths, hit rates and accepted shares come from traffic") {
  auto in = k3_on_one_node();
  in.traffic.kinds.push_back(in.traffic.kinds.front());
  const auto said = take_from_traffic(two_days(), in);
  CHECK(in.traffic.requests_per_hour == Approx(100));
  CHECK(in.traffic.peak_to_mean == Approx(3));
  CHECK(in.traffic.local_only_share == Approx(0.1));
  REQUIRE(in.traffic.kinds.size() == 1);
  CHECK(in.traffic.kinds[0].prompt_tokens == Approx(10'000));
  CHECK(in.traffic.kinds[0].output_tokens == Approx(500));
  CHECK(in.self_host.hit_rate == Approx(0.8));
  CHECK(in.self_host.accepted_share == Approx(3'239.0 / 3'599));
  CHECK(in.api.hit_rate == Approx(0.96));
  CHECK(in.api.accepted_share == Approx(0.95));
  CHECK(in.traffic.reuse_share == Approx(0.96));  // what was seen is possible
  REQUIRE(said.size() == 4);
  CHECK(said[0] == "4,800 requests in 48 hours");
  CHECK(said[3] ==
        "the API: 1,200 requests, 1,140 accepted, 0 failed, 0 retried, $5.00 at its prices; hit rate 96%");
}

TEST_CASE("what traffic does not show stays as the file has it") {
  auto in = k3_on_one_node();
  auto seen = two_days();
  seen.until_s = k_start_s + 600;
  seen.by_target.erase({0, "kimi", "moonshot"});
  seen.by_target[{0, "kimi", "r1"}].known_tokens = 0;
  const auto said = take_from_traffic(seen, in);
  CHECK(in.traffic.requests_per_hour == Approx(3'600));  // in ten minutes: taken as an hour's
  CHECK(in.traffic.peak_to_mean == 2.0);
  CHECK(in.self_host.hit_rate == 0.8);
  CHECK(in.api.hit_rate == 0.9);
  CHECK(in.api.accepted_share == 0.945);
  REQUIRE(said.size() == 4);
  CHECK(said[1].starts_with("less than a day"));
  CHECK(said[2].ends_with("the hit rate stays the file's"));
  CHECK(said[3].starts_with("no request went to the API"));
}

TEST_CASE("no traffic changes nothing") {
  auto in = k3_on_one_node();
  const auto said =
      take_from_traffic({.since_s = 0, .until_s = 10, .requests_by_hour = {}, .by_target = {}}, in);
  REQUIRE(said.size() == 1);
  CHECK(in.traffic.requests_per_hour == 3600.0);
  CHECK(in.api.hit_rate == 0.9);
}

}  // namespace
}  // namespace weir::gateway::costs
