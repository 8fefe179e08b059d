#include "tests/policy/failover/simulation.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iostream>

namespace weir::policy::failover {
namespace {

#ifdef NDEBUG
constexpr std::uint64_t k_seeds = 100'000;
#else
constexpr std::uint64_t k_seeds = 2'000;
#endif

// A fleet, its load and its faults, all from the seed.
sim_options random_options(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&random](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  sim_options o{.seed = seed};
  o.targets = static_cast<std::size_t>(1 + below(below(4) == 0 ? 12 : 4));
  o.slots = static_cast<int>(1 + below(4));
  o.window_tokens = below(3) == 0 ? 2'000 : 0;
  o.duration_ns = (5 + below(20)) * k_sim_s;
  o.time_ns = (1 + below(8)) * k_sim_s;
  o.stream_ns = (50 + below(1'500)) * k_sim_ms;
  o.requests_per_s = static_cast<double>(1 + below(10));
  o.terms.attempts_max = static_cast<int>(1 + below(4));
  o.terms.content_ns = below(2) * (500 * k_sim_ms + below(2 * k_sim_s));
  o.terms.wait_max_ns = below(2) * 2 * k_sim_s;
  o.terms.hedge_after_ns = below(4) == 0 ? 100 * k_sim_ms : 0;
  o.queue.requests_max = static_cast<std::size_t>(1 + below(20));
  o.queue.wait_max_s = static_cast<double>(1 + below(5));
  o.breakers.open_ns = (1 + below(4)) * k_sim_s;
  o.breakers.slow_start_ns = below(3) * k_sim_s;
  o.breakers.window_ended_min = static_cast<std::int32_t>(2 + below(20));
  for (std::size_t t = 0; t < o.targets; ++t) {
    for (auto at = k_sim_s + below(10 * k_sim_s); at < o.duration_ns; at += below(8 * k_sim_s)) {
      const bool is_repaired = below(3) == 0;
      o.script.push_back({at, t, is_repaired ? fault::healthy : static_cast<fault>(below(k_faults))});
    }
  }
  return o;
}

TEST_CASE(
    "attempts, breakers, budget and queue together: every request ends once, nothing is left in flight") {
  sim_totals sum;
  for (std::uint64_t seed = 1; seed <= k_seeds; ++seed) {
    simulation world(random_options(seed));
    try {
      world.run();
    } catch (const std::exception& e) {
      FAIL("seed " << seed << ": " << e.what());
    }
    const auto& t = world.totals();
    sum.requests += t.requests;
    sum.answered += t.answered;
    sum.failed_early += t.failed_early;
    sum.interrupted += t.interrupted;
    sum.shed += t.shed;
    sum.retries += t.retries;
    sum.hedges += t.hedges;
    sum.reconnects += t.reconnects;
    sum.openings += t.openings;
    sum.probes += t.probes;
    for (std::size_t i = 0; i < k_failure_kinds; ++i) sum.ends[i] += t.ends[i];
  }
  std::cout << k_seeds << " seeds: " << sum.requests << " requests, " << sum.answered << " answered, "
            << sum.failed_early << " failed before content, " << sum.interrupted << " after, " << sum.shed
            << " shed, " << sum.retries << " retries, " << sum.hedges << " hedges, " << sum.reconnects
            << " reconnects, " << sum.probes << " probes\n";
  // Each way to end has been taken, or the simulation does not test it.
  for (std::size_t i = 0; i < k_failure_kinds; ++i) {
    const auto kind = static_cast<failure_kind>(i);
    using enum failure_kind;
    const bool never_ends_one = kind == cancelled || kind == stale_connection || kind == quota_exhausted ||
                                kind == misconfigured || kind == try_again || kind == too_large ||
                                kind == stopped || kind == unsupported;
    INFO(to_text(kind));
    CHECK((sum.ends[i] > 0) != never_ends_one);
  }
  CHECK(sum.retries > k_seeds);
  CHECK(sum.hedges > 0);
  CHECK(sum.reconnects > 0);
  CHECK(sum.probes > k_seeds / 10);
}

}  // namespace
}  // namespace weir::policy::failover
