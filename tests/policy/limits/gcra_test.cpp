#include "policy/limits/gcra.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <iterator>
#include <random>
#include <thread>
#include <vector>

namespace weir::policy::limits {
namespace {

constexpr std::int64_t k_s = 1'000'000'000;

std::int64_t admitted_at(gcra_cell& cell, const rate& how, std::int64_t asked, std::int64_t now_ns) {
  std::int64_t n = 0;
  for (std::int64_t i = 0; i < asked; ++i) n += cell.take(how, 1, now_ns).allowed ? 1 : 0;
  return n;
}

TEST_CASE("H1: an idle cell lets exactly its limit pass at once") {
  for (const std::int64_t limit : {1, 2, 3, 7, 59, 60, 61, 100, 997, 10'000, 65'537}) {
    gcra_cell cell;
    INFO("limit " << limit);
    CHECK(admitted_at(cell, {.limit = limit}, 2 * limit, 5 * k_s) == limit);
  }
}

TEST_CASE("H1: a thousand threads' requests on 100 a minute with the clock stopped: exactly 100") {
  gcra_cell cell;
  std::atomic<int> allowed = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 125; ++i) allowed += cell.take({.limit = 100}, 1, 7 * k_s).allowed ? 1 : 0;
    });
  }
  for (auto& t : threads) t.join();
  CHECK(allowed == 100);
}

TEST_CASE("over t seconds at most limit + t * limit / 60 pass, and no less when asked all the time") {
  for (const std::int64_t limit : {1, 7, 100, 6'000}) {
    gcra_cell cell;
    const rate how{.limit = limit};
    std::int64_t passed = 0;
    for (std::int64_t t_ms = 0; t_ms <= 180'000; t_ms += 50) {
      passed += admitted_at(cell, how, limit / 100 + 2, t_ms * 1'000'000);
      CHECK(passed <= limit + t_ms * limit / 60'000);
    }
    CHECK(passed >= 4 * limit - 1);
  }
}

TEST_CASE("headers: remaining and reset agree with pairs that OpenAI's servers sent") {
  struct row {
    std::int64_t limit;
    std::int64_t window_ns;
    std::int64_t used;
    std::int64_t reset_us;
  };
  // ecosystem figures: 10000/9481 a minute -> 3.114 s; 200000/199978 -> 6.6 ms; 10000/9999 a day -> 8.64 s.
  for (const auto& r : {row{10'000, k_minute_ns, 519, 3'114'000}, row{200'000, k_minute_ns, 22, 6'600},
                        row{10'000, 1440 * k_minute_ns, 1, 8'640'000}}) {
    gcra_cell cell;
    const auto got = cell.take({.limit = r.limit, .window_ns = r.window_ns}, r.used, 3 * k_s);
    REQUIRE(got.allowed);
    CHECK(got.after.remaining == r.limit - r.used);
    CHECK(got.after.reset_ns / 1000 == r.reset_us);
  }
}

TEST_CASE("H11: a refusal tells the time at which the same request passes, not a nanosecond less") {
  std::mt19937_64 random(11);
  for (int i = 0; i < 2'000; ++i) {
    gcra_cell cell;
    const rate how{.limit = 1 + static_cast<std::int64_t>(random() % 5'000)};
    const std::int64_t units = 1 + static_cast<std::int64_t>(random() % how.limit);
    while (cell.take(how, units, k_s).allowed) {
    }
    const auto refused = cell.take(how, units, k_s);
    REQUIRE(refused.retry_ns > 0);
    CHECK_FALSE(cell.take(how, units, k_s + refused.retry_ns - 1).allowed);
    CHECK(cell.take(how, units, k_s + refused.retry_ns).allowed);
  }
}

// What is reserved and partly given back never lets more pass in any interval than the limit and its refill.
TEST_CASE("settling with less gives units back, and no interval lets more through than the limit says") {
  struct use {
    std::int64_t at_ns;
    std::int64_t units;
  };
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    gcra_cell cell;
    const rate how{.limit = 1'000};
    struct open {
      std::size_t use;
      taken got;
      std::int64_t ends_ns;
    };
    std::vector<use> uses;
    std::vector<open> running;
    std::int64_t now = 0;
    std::int64_t refused = 0;
    for (int i = 0; i < 400; ++i) {
      now += static_cast<std::int64_t>(random() % (3 * k_s));
      std::erase_if(running, [&](const open& o) {
        if (o.ends_ns > now) return false;
        const auto unused = static_cast<std::int64_t>(random() % (o.got.units + 1));
        cell.give_back(how, o.got, unused, o.ends_ns);
        uses[o.use].units -= unused;
        return true;
      });
      const auto got = cell.take(how, 1 + static_cast<std::int64_t>(random() % 300), now);
      refused += got.allowed ? 0 : 1;
      if (!got.allowed) continue;
      running.push_back({uses.size(), got.got, now + static_cast<std::int64_t>(random() % (20 * k_s))});
      uses.push_back({now, got.got.units});
    }
    CHECK(refused > 0);
    for (const auto& o : running) uses[o.use].units = 0;  // still open: not yet used
    for (std::size_t a = 0; a < uses.size(); ++a) {
      std::int64_t sum = 0;
      for (std::size_t b = a; b < uses.size(); ++b) {
        sum += uses[b].units;
        const double bound = 1'000 + static_cast<double>(uses[b].at_ns - uses[a].at_ns) / 60e9 * 1'000;
        if (static_cast<double>(sum) > bound + 1) FAIL("from " << a << " to " << b << ": " << sum);
      }
    }
  }
}

TEST_CASE("what was given back at once can be taken again at once") {
  gcra_cell cell;
  const rate how{.limit = 100};
  const auto all = cell.take(how, 100, k_s);
  REQUIRE(all.allowed);
  CHECK_FALSE(cell.take(how, 1, k_s).allowed);
  cell.give_back(how, all.got, 60, k_s);
  CHECK(cell.look(how, k_s).remaining == 60);
  CHECK(admitted_at(cell, how, 100, k_s) == 60);
}

TEST_CASE("a charge beyond what was taken delays the next ones") {
  gcra_cell cell;
  const rate how{.limit = 60};
  cell.charge(how, 90, k_s);
  CHECK(cell.look(how, k_s).remaining == 0);
  const auto refused = cell.take(how, 1, k_s);
  CHECK_FALSE(refused.allowed);
  CHECK(refused.retry_ns == 31 * k_s);
}

TEST_CASE("one absurd usage locks nobody out: no more than one window is owed") {
  for (const std::int64_t limit : {1, 60, 100, 104, 105, 100'000, 1'000'000'000}) {
    for (const std::int64_t units : {std::int64_t{4'294'967'295}, std::int64_t{1} << 40, INT64_MAX}) {
      INFO("limit " << limit << ", units " << units);
      gcra_cell cell;
      const rate how{.limit = limit};
      for (int i = 0; i < 3; ++i) cell.charge(how, units, 9 * k_s);
      CHECK(cell.look(how, 9 * k_s).remaining == 0);
      CHECK(cell.empty_in_ns(9 * k_s) <= 2 * k_minute_ns);
      const auto refused = cell.take(how, 1, 9 * k_s);
      REQUIRE_FALSE(refused.allowed);
      CHECK(refused.retry_ns <= k_minute_ns + k_minute_ns / limit + 1);
      CHECK(cell.take(how, 1, 9 * k_s + refused.retry_ns).allowed);
    }
  }
}

TEST_CASE("a cell holds its limit after any charge, gift or restart of any size at any time") {
  constexpr std::int64_t extremes[] = {
      INT64_MIN,      INT64_MIN + 1, -k_s,          -1,       0, 1, 59, 104, k_minute_ns,
      INT64_MAX / 16, INT64_MAX / 2, INT64_MAX - 1, INT64_MAX};
  std::mt19937_64 random(5);
  const auto any = [&] {
    const auto at = random() % (std::size(extremes) + 2);
    return at < std::size(extremes) ? extremes[at] : static_cast<std::int64_t>(random());
  };
  for (int run = 0; run < 20'000; ++run) {
    gcra_cell cell;
    const auto limit = 1 + static_cast<std::int64_t>(random() % (run % 2 == 0 ? 200 : k_rate_max));
    // A unit's share of the window is no less than a tick of the clock.
    const rate how{.limit = limit, .window_ns = run % 3 == 0 ? std::max(limit, any()) : k_minute_ns};
    const std::int64_t now = any();
    for (int i = 0; i < 6; ++i) {
      switch (random() % 4) {
        case 0:
          cell.charge(how, any(), now);
          break;
        case 1:
          cell.restore(any(), now);
          break;
        case 2:
          cell.look(how, any());
          break;
        default:
          cell.take(how, std::max<std::int64_t>(0, any()), now);
      }
    }
    const auto seen = cell.look(how, now);
    INFO("run " << run << ", limit " << how.limit << ", window " << how.window_ns << ", now " << now);
    REQUIRE(seen.remaining >= 0);
    REQUIRE(seen.remaining <= how.limit);
    REQUIRE(seen.reset_ns >= 0);
    REQUIRE_FALSE(cell.take(how, seen.remaining + 1, now).allowed);
    if (seen.remaining > 0) REQUIRE(cell.take(how, seen.remaining, now).allowed);
    cell.give_back(how, {any(), any()}, any(), now);
    REQUIRE(cell.empty_in_ns(now) >= 0);
  }
}

TEST_CASE("what was used lives through a restart, less the time that went by") {
  gcra_cell before;
  const rate how{.limit = 60};
  REQUIRE(before.take(how, 50, 100 * k_s).allowed);
  CHECK(before.empty_in_ns(120 * k_s) == 30 * k_s);
  gcra_cell after;
  after.restore(before.empty_in_ns(120 * k_s), 7 * k_s);
  CHECK(after.look(how, 7 * k_s).remaining == 30);
  after.restore(0, 7 * k_s);
  CHECK(after.look(how, 7 * k_s).remaining == 30);
}

TEST_CASE("extreme units and times neither overflow nor pass") {
  gcra_cell cell;
  const rate how{.limit = k_rate_max};
  CHECK_FALSE(fits(how, k_rate_max + 1));
  CHECK(cell.take(how, k_rate_max, 1'000'000 * k_minute_ns).allowed);
  CHECK_FALSE(cell.take(how, INT64_MAX, 1'000'000 * k_minute_ns).allowed);
  CHECK_FALSE(gcra_cell().take({.limit = 1}, INT64_MAX, 0).allowed);
}

}  // namespace
}  // namespace weir::policy::limits
