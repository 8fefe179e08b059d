#include "policy/failover/budget.hpp"

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <thread>
#include <vector>

#include "policy/failover/freeze.hpp"

namespace weir::policy::failover {
namespace {

constexpr std::int64_t k_ms = 1'000'000;
constexpr std::int64_t k_s = 1'000 * k_ms;

int take_all(share_budget& b, int asked, std::int64_t now_ns) {
  int got = 0;
  for (int i = 0; i < asked; ++i) got += b.take(1, now_ns) ? 1 : 0;
  return got;
}

TEST_CASE("a tenth of the requests of a window may be tried again, and at least three") {
  for (const int requests : {0, 1, 29, 30, 31, 40, 100, 999, 5'000}) {
    share_budget b({});
    for (int i = 0; i < requests; ++i) b.add(1, 5 * k_s);
    INFO(requests);
    CHECK(take_all(b, 2 * requests + 10, 5 * k_s) == std::max(3, requests / 10));
  }
}

TEST_CASE("what leaves the window is forgotten, what is given back is there again") {
  share_budget b({});
  for (int i = 0; i < 100; ++i) b.add(1, k_s);
  CHECK(take_all(b, 20, k_s) == 10);
  CHECK(take_all(b, 20, 9 * k_s) == 0);
  b.give_back(4);
  CHECK(take_all(b, 20, 9 * k_s) == 4);
  CHECK(take_all(b, 20, 12 * k_s) == 3);  // of requests none is left
  CHECK(b.added() == 0);
  CHECK(take_all(b, 20, 1'000 * k_s) == 3);
  CHECK(b.taken() == 3);
}

TEST_CASE("a budget of money counts like one of requests") {
  share_budget b({.share_permille = 20, .units_min = 0});
  b.add(std::int64_t{1} << 52, k_s);
  CHECK_FALSE(b.take((std::int64_t{1} << 52) / 49, k_s));
  CHECK(b.take((std::int64_t{1} << 52) / 51, k_s));
  CHECK_FALSE(b.take((std::int64_t{1} << 52) / 51, k_s));
}

// Against plain sums over the same slots, checked at every take.
TEST_CASE("no sequence of calls takes more than the share of its window") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  INFO("seed " << seed);
  for (int round = 0; round < 100; ++round) {
    share_budget b({});
    std::vector<std::int64_t> requests(4'000), retries(4'000);
    std::int64_t now = k_s;
    for (int i = 0; i < 3'000; ++i) {
      now += static_cast<std::int64_t>(random() % (random() % 50 == 0 ? 4 * k_s : 30 * k_ms));
      const auto slot = static_cast<std::size_t>(now / k_s);
      if (random() % 3 != 0) {
        b.add(1, now);
        ++requests[slot];
        continue;
      }
      std::int64_t all = 0, taken = 0;
      for (std::size_t s = slot < 9 ? 0 : slot - 9; s <= slot; ++s) {
        all += requests[s];
        taken += retries[s];
      }
      const bool may = taken + 1 <= std::max<std::int64_t>(3, all / 10);
      REQUIRE(b.take(1, now) == may);
      retries[slot] += may ? 1 : 0;
    }
  }
}

TEST_CASE("threads together take no more than the limit, also while the window turns") {
  share_budget b({.share_permille = 100, .units_min = 50});
  std::atomic<std::int64_t> taken = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&b, &taken, t] {
      for (int i = 0; i < 20'000; ++i) {
        const std::int64_t now = k_s + i * k_s / 2'000 + t;  // ten slots: one window
        b.add(1, now);
        if (b.take(1, now)) ++taken;
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(b.added() == 80'000);
  CHECK(b.taken() == taken);
  CHECK(taken >= 50);
  CHECK(taken <= 8'000);
  CHECK(take_all(b, 100, 100 * k_s) == 50);
  CHECK(b.added() == 0);
}

TEST_CASE("a target that hangs is known within two seconds, by a single probe") {
  freeze_watch w({});
  const std::int64_t since = 10 * k_s;
  CHECK(w.check(since, since).at_ns == since + k_s);
  const auto first = w.check(since, since + k_s);
  CHECK(first.what == freeze_step::probe);
  CHECK(w.check(since + 1, since + k_s + 1).what == freeze_step::wait);  // one probes for all
  CHECK(w.check(since, first.at_ns - 1).what == freeze_step::wait);
  CHECK(w.check(since, first.at_ns).what == freeze_step::frozen);
  CHECK(first.at_ns - since < 2 * k_s);
  CHECK(w.check(since + 1, first.at_ns).what == freeze_step::frozen);
}

TEST_CASE("a target that answers the probe works on a long prompt") {
  freeze_watch w({});
  const std::int64_t since = 10 * k_s;
  std::int64_t now = since;
  int probes = 0;
  for (int i = 0; i < 200; ++i) {
    const auto v = w.check(since, now);
    REQUIRE(v.what != freeze_step::frozen);
    probes += v.what == freeze_step::probe ? 1 : 0;
    if (v.what == freeze_step::probe) w.heard(now + 100 * k_ms);
    now = v.at_ns;
  }
  CHECK(probes > 50);
}

TEST_CASE("a byte of any attempt is life, a probe that could not be made is no evidence") {
  freeze_watch w({});
  w.heard(12 * k_s);
  CHECK(w.check(10 * k_s, 12'500 * k_ms).what == freeze_step::wait);
  CHECK(w.check(10 * k_s, 13 * k_s).what == freeze_step::probe);
  w.probe_given_up();
  CHECK(w.check(10 * k_s, 14 * k_s).what == freeze_step::probe);
  CHECK(w.check(10 * k_s, 14'900 * k_ms).what == freeze_step::frozen);
  // An old missed probe says nothing of what was asked later.
  CHECK(w.check(20 * k_s, 20'500 * k_ms).what == freeze_step::wait);
  CHECK(w.check(20 * k_s, 21 * k_s).what == freeze_step::probe);
}

}  // namespace
}  // namespace weir::policy::failover
