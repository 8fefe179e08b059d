#include "loadtest/chaos/plan.hpp"

#include <catch2/catch.hpp>
#include <set>

namespace weir::loadtest::chaos {
namespace {

TEST_CASE("acts are kept by direction, in the order of their bytes") {
  chaos_options options;
  options.acts = {{act::reset, 90}, {act::garble, 5}, {act::reset_request, 3}, {act::add, 5}};
  std::mt19937_64 random(1);
  const auto plan = draw_plan(options, random);
  REQUIRE(plan.to_client.size() == 3);
  CHECK(plan.to_client[0].kind == act::garble);
  CHECK(plan.to_client[1].kind == act::add);
  CHECK(plan.to_client[2].at == 90);
  REQUIRE(plan.to_server.size() == 1);
  CHECK(plan.to_server[0].kind == act::reset_request);
  CHECK_FALSE(plan.refuse);
  CHECK(plan.touched);
}

TEST_CASE("a share of the connections is touched") {
  chaos_options options;
  options.acts = {{act::refuse, 0}};
  options.share = 0.25;
  std::mt19937_64 random(7);
  constexpr int k_draws = 10'000;
  int touched = 0;
  for (int i = 0; i < k_draws; ++i) touched += draw_plan(options, random).refuse ? 1 : 0;
  CHECK(touched == Approx(k_draws * 0.25).epsilon(0.1));
}

TEST_CASE("a random schedule draws every kind, between its bytes, again for the same seed") {
  chaos_options options;
  options.random_schedule = true;
  options.k_min = 10;
  options.k_max = 12;
  std::mt19937_64 random(7);
  std::mt19937_64 again(7);
  std::set<act> kinds;
  for (int i = 0; i < 200; ++i) {
    auto plan = draw_plan(options, random);
    auto same = draw_plan(options, again);
    CHECK(plan.refuse == same.refuse);
    if (plan.refuse) {
      kinds.insert(act::refuse);
      continue;
    }
    const auto d = plan.to_client.empty() ? direction::to_server : direction::to_client;
    REQUIRE(plan.of(d).size() == 1);
    REQUIRE(same.of(d).size() == 1);
    const auto [kind, at] = plan.of(d)[0];
    CHECK(kind == same.of(d)[0].kind);
    CHECK(at == same.of(d)[0].at);
    CHECK(at >= 10);
    CHECK(at <= 12);
    kinds.insert(kind);
  }
  CHECK(kinds.size() == act_table().size());
}

TEST_CASE("a send is no longer than the piece and what 10 ms of the rate let through") {
  const auto [piece, rate, most] = GENERATE(table<std::uint64_t, std::uint64_t, std::uint64_t>(
      {{0, 0, UINT64_MAX}, {7, 0, 7}, {0, 1'000, 10}, {7, 1'000, 7}, {0, 50, 1}}));
  chaos_options options;
  options.piece_bytes = piece;
  options.rate_bytes_per_s = rate;
  CHECK(send_bytes_max(options) == most);
}

}  // namespace
}  // namespace weir::loadtest::chaos
