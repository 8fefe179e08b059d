// What the whole is for, in figures, in virtual time: replicas that die under load, and more load than there
// is capacity.
#include <algorithm>
#include <catch2/catch.hpp>
#include <iostream>
#include <vector>

#include "tests/policy/failover/simulation.hpp"

namespace weir::policy::failover {
namespace {

sim_options fleet(std::uint64_t seed) {
  return {.seed = seed,
          .targets = 3,
          .slots = 100,
          .requests_per_s = 500,
          .duration_ns = 60 * k_sim_s,
          .time_ns = 30 * k_sim_s,
          .work_tokens = 400,  // 20 ms
          .stream_ns = 200 * k_sim_ms,
          .awkward = false};
}

std::int64_t percentile_ns(std::vector<std::int64_t> values, double share) {
  REQUIRE_FALSE(values.empty());
  const auto at = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<long>(at), values.end());
  return values[at];
}

std::vector<std::int64_t> ttfts(const simulation& world, std::int64_t from_ns, std::int64_t to_ns) {
  std::vector<std::int64_t> out;
  for (const auto& r : world.requests()) {
    if (r.forwards > 0 && r.arrived_ns >= from_ns && r.arrived_ns < to_ns) {
      out.push_back(r.content_ns - r.arrived_ns);
    }
  }
  return out;
}

TEST_CASE("three replicas at 500 a second, one lost: no client sees it before its first content") {
  struct row {
    const char* what;
    fault lost;
  };
  for (const auto& [what, lost] :
       {row{"killed", fault::dead}, row{"frozen", fault::hanging}, row{"partitioned", fault::partitioned},
        row{"500", fault::erring}, row{"rate limited", fault::limited}, row{"bad key", fault::bad_key},
        row{"full", fault::queue_full}, row{"closing", fault::closing}}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      INFO(what << ", seed " << seed);
      auto o = fleet(seed);
      o.script = {{10 * k_sim_s, 1, lost}, {40 * k_sim_s, 1, fault::healthy}};
      simulation world(o);
      REQUIRE_NOTHROW(world.run());
      const auto& t = world.totals();
      CHECK(t.failed_early == 0);
      CHECK(t.shed == 0);
      CHECK(t.retries * 10 <= t.requests);
      CHECK(t.frozen_seen_after_ns < 2 * k_sim_s);
      CHECK(t.answered + t.interrupted == t.requests);
      if (seed > 1) continue;
      std::cout << what << ": " << t.requests << " requests, " << t.failed_early << " failed before content, "
                << t.interrupted << " after, " << t.retries << " retries, frozen seen after "
                << t.frozen_seen_after_ns / k_sim_ms << " ms, p99 TTFT "
                << percentile_ns(ttfts(world, 0, k_never_ns), 0.99) / k_sim_ms << " ms\n";
    }
  }
}

TEST_CASE("two of three lost: using one that failed costs less than the retry budget") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    INFO("seed " << seed);
    auto o = fleet(seed);
    o.requests_per_s = 250;
    o.script = {{10 * k_sim_s, 0, fault::dead}, {15 * k_sim_s, 2, fault::hanging}};
    simulation world(o);
    REQUIRE_NOTHROW(world.run());
    CHECK(world.totals().failed_early == 0);
    CHECK(world.totals().shed == 0);
    CHECK(world.totals().retries * 20 <= world.totals().requests);
  }
}

TEST_CASE(
    "five times the load for 30 s: goodput stays, admitted ones are served in time, and it is over at once") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    INFO("seed " << seed);
    auto o = fleet(seed);
    o.slots = 10;
    o.work_tokens = 8'000;         // 400 ms
    o.stream_ns = 600 * k_sim_ms;  // so a slot serves one a second
    o.requests_per_s = 18;         // of 30
    o.queue.wait_max_s = 0.3;
    o.burst_factor = 5 * 30 / o.requests_per_s;
    o.burst_from_ns = 20 * k_sim_s;
    o.burst_to_ns = 50 * k_sim_s;
    o.duration_ns = 80 * k_sim_s;
    simulation world(o);
    REQUIRE_NOTHROW(world.run());
    const auto done_in = [&world](std::int64_t from_ns, std::int64_t to_ns) {
      std::size_t n = 0;
      for (const auto& r : world.requests()) {
        n += r.forwards > 0 && r.ended_ns >= from_ns && r.ended_ns < to_ns ? 1 : 0;
      }
      return static_cast<double>(n) / (static_cast<double>(to_ns - from_ns) / k_sim_s);
    };
    const double goodput = done_in(22 * k_sim_s, 50 * k_sim_s);
    const auto before = percentile_ns(ttfts(world, 0, 20 * k_sim_s), 0.99);
    const auto during = percentile_ns(ttfts(world, 20 * k_sim_s, 50 * k_sim_s), 0.99);
    const auto after = percentile_ns(ttfts(world, 52 * k_sim_s, 80 * k_sim_s), 0.99);
    CHECK(goodput >= 0.9 * 30);
    CHECK(during <= 2 * before);
    CHECK(after <= before * 12 / 10);
    CHECK(world.totals().failed_early == 0);
    for (const auto& r : world.requests()) {
      if (r.how.why != failure_kind::shed) continue;
      REQUIRE(r.how.retry_after_ns >= k_sim_s);
      CHECK(r.arrived_ns >= 20 * k_sim_s);
      CHECK(r.arrived_ns < 52 * k_sim_s);
    }
    if (seed > 1) continue;
    std::cout << "overload: goodput " << goodput << " of 30 a second, p99 TTFT " << before / k_sim_ms
              << " ms before, " << during / k_sim_ms << " during, " << after / k_sim_ms << " after, "
              << world.totals().shed << " of " << world.totals().requests << " shed\n";
  }
}

}  // namespace
}  // namespace weir::policy::failover
