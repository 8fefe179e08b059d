#include "policy/failover/breaker.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <memory>

#include "policy/failover/pool.hpp"

namespace weir::policy::failover {
namespace {

constexpr std::int64_t k_s = 1'000'000'000;
using enum breaker_effect;

void run(breaker& b, breaker_effect effect, std::int64_t now_ns) {
  const auto under = b.acquire(now_ns);
  REQUIRE(under);
  b.ended(*under, effect, now_ns);
}

void trip(breaker& b, std::int64_t now_ns) {
  for (int i = 0; i < 5; ++i) run(b, failure, now_ns);
}

TEST_CASE("G8: five failures in a row open it at once, whatever the number of requests") {
  breaker b({}, 1);
  for (int i = 0; i < 4; ++i) run(b, failure, k_s);
  CHECK(b.look(k_s).usable);
  run(b, failure, k_s);
  CHECK_FALSE(b.look(k_s).usable);
  CHECK(b.look(k_s).ejected);
  CHECK_FALSE(b.acquire(k_s));
}

TEST_CASE("a success between failures starts the row anew, a neutral end does not") {
  breaker b({}, 1);
  for (int i = 0; i < 4; ++i) run(b, failure, k_s);
  run(b, success, k_s);
  for (int i = 0; i < 4; ++i) run(b, failure, k_s);
  CHECK(b.look(k_s).usable);
  run(b, neutral, k_s);
  run(b, failure, k_s);
  CHECK_FALSE(b.look(k_s).usable);
}

TEST_CASE("G3, E4: neutral ends never open it") {
  breaker b({}, 1);
  for (int i = 0; i < 1'000; ++i) run(b, neutral, k_s + i);
  CHECK(b.look(2 * k_s).usable);
}

TEST_CASE("a share of failures within the window opens it, an old one does not") {
  breaker b({}, 1);
  for (int i = 0; i < 10; ++i) {
    run(b, failure, k_s + i);
    run(b, success, k_s + i);
  }
  CHECK(b.look(k_s + 30).usable);  // 20 ended, half failed, but the last was a success
  run(b, failure, k_s + 30);
  CHECK_FALSE(b.look(k_s + 31).usable);

  breaker slow({}, 1);
  for (int i = 0; i < 100; ++i) {
    run(slow, failure, (i + 1) * k_s);
    run(slow, success, (i + 1) * k_s);
    REQUIRE(slow.look((i + 1) * k_s).usable == true);
    if (i % 9 == 8) {
      for (int n = 0; n < 20; ++n) run(slow, success, (i + 1) * k_s);
    }
  }
}

TEST_CASE("G5: when its time is over it is half-open: one probe, decided at its stream's end (G1)") {
  breaker b({}, 1);
  trip(b, k_s);
  const auto due = b.look(k_s).from_ns;
  CHECK(due > k_s + 26 * k_s);
  CHECK(due <= k_s + 30 * k_s);
  CHECK_FALSE(b.acquire(due - 1));
  CHECK(b.look(due).probe);
  const auto probe = b.acquire(due);
  REQUIRE(probe);
  CHECK(probe->as == permit::use::probe);
  CHECK_FALSE(b.acquire(due + k_s));
  b.content(*probe, due + k_s);
  CHECK_FALSE(b.look(due + 2 * k_s).usable);  // the stream has opened, that proves nothing yet
  SECTION("it ends well: slow start") {
    b.ended(*probe, success, due + 5 * k_s);
    CHECK(b.look(due + 5 * k_s).weight == Approx(0.1));
    CHECK(b.look(due + 20 * k_s).weight == Approx(0.55));
    CHECK(b.look(due + 60 * k_s).weight == 1);
    CHECK_FALSE(b.look(due + 60 * k_s).ejected);
    CHECK(b.acquire(due + 60 * k_s));
  }
  SECTION("it breaks: open for twice as long") {
    b.ended(*probe, failure, due + 5 * k_s);
    const auto next = b.look(due + 5 * k_s).from_ns - (due + 5 * k_s);
    CHECK(next > 53 * k_s);
    CHECK(next <= 60 * k_s);
  }
  SECTION("its client leaves: the next request probes") {
    b.ended(*probe, neutral, due + 5 * k_s);
    const auto again = b.acquire(due + 5 * k_s);
    REQUIRE(again);
    CHECK(again->as == permit::use::probe);
    b.ended(*probe, success, due + 6 * k_s);  // not his any more
    CHECK_FALSE(b.acquire(due + 6 * k_s));
  }
  SECTION("it streams for long: that is as good as an end") {
    CHECK_FALSE(b.look(due + 30 * k_s).usable);
    CHECK(b.look(due + 31 * k_s).usable);
    REQUIRE(b.acquire(due + 31 * k_s));
    CHECK(b.acquire(due + 31 * k_s));
    b.ended(*probe, failure, due + 40 * k_s);
    CHECK(b.look(due + 40 * k_s).usable);
  }
}

TEST_CASE("the time it is open grows to a bound, jittered by the seed, and is forgotten after a good while") {
  breaker b({}, 7);
  std::int64_t now = k_s;
  trip(b, now);
  for (int n = 1; n <= 15; ++n) {
    const auto from = b.look(now).from_ns;
    const auto whole = std::min<std::int64_t>(30 * n, 300) * k_s;
    CHECK(from - now <= whole);
    CHECK(from - now >= whole * 9 / 10);
    now = from;
    const auto probe = b.acquire(now);
    REQUIRE(probe);
    b.ended(*probe, n == 15 ? success : failure, now);
  }
  trip(b, now + 10 * k_s);
  CHECK(b.openings() == 16);
  breaker other({}, 8), same({}, 7), fresh({}, 7);
  trip(other, k_s);
  trip(same, k_s);
  trip(fresh, k_s);
  CHECK(same.look(k_s).from_ns == fresh.look(k_s).from_ns);
  CHECK(same.look(k_s).from_ns != other.look(k_s).from_ns);
  const auto due = fresh.look(k_s).from_ns;
  run(fresh, success, due);
  trip(fresh, due + 100 * k_s);
  CHECK(fresh.openings() == 1);
}

TEST_CASE("late ends of streams that began before it opened change nothing (G7)") {
  breaker b({}, 1);
  const auto old = b.acquire(k_s);
  REQUIRE(old);
  trip(b, k_s);
  const auto due = b.look(k_s).from_ns;
  b.ended(*old, success, 2 * k_s);
  CHECK_FALSE(b.look(2 * k_s).usable);
  const auto probe = b.acquire(due);
  REQUIRE(probe);
  b.ended(*old, failure, due);
  CHECK(b.openings() == 1);
  b.ended(*probe, success, due + 1);
  CHECK(b.look(due + 1).usable);
}

TEST_CASE("failures of attempts that ran when it opened do not keep it open for longer (G7)") {
  breaker b({}, 1);
  std::array<std::optional<permit>, 20> running;
  for (auto& under : running) under = b.acquire(k_s);
  for (const auto& under : running) b.ended(*under, failure, 2 * k_s);
  CHECK(b.openings() == 1);
  CHECK(b.look(2 * k_s).from_ns <= 32 * k_s);
}

TEST_CASE(
    "G8: a pause that the target asked for holds from the next request on, and is not believed for ever") {
  breaker b({}, 1);
  b.hold(4 * k_s, k_s);
  CHECK_FALSE(b.look(2 * k_s).usable);
  CHECK_FALSE(b.look(2 * k_s).ejected);
  CHECK_FALSE(b.acquire(2 * k_s, true));
  b.hold(k_s, 2 * k_s);  // a shorter one does not shorten it
  CHECK_FALSE(b.look(4 * k_s).usable);
  CHECK(b.look(5 * k_s).usable);
  CHECK(b.look(5 * k_s).weight == 1);
  b.hold(std::numeric_limits<std::int64_t>::max(), 6 * k_s);
  CHECK(b.look(6 * k_s).from_ns == 306 * k_s);
}

TEST_CASE("a breaker that the pool overrules is used, and a success there closes it") {
  breaker b({}, 1);
  trip(b, k_s);
  CHECK_FALSE(b.acquire(2 * k_s));
  for (const auto effect : {failure, neutral, failure}) {
    const auto under = b.acquire(2 * k_s, true);
    REQUIRE(under);
    b.ended(*under, effect, 3 * k_s);
    CHECK(b.openings() == 1);
    CHECK(b.look(3 * k_s).ejected);
  }
  const auto under = b.acquire(4 * k_s, true);
  REQUIRE(under);
  b.ended(*under, success, 5 * k_s);
  CHECK(b.look(5 * k_s).usable);
  CHECK_FALSE(b.look(5 * k_s).ejected);
}

TEST_CASE("ejection never empties a pool, nor takes more than half of a small one") {
  for (std::size_t size = 0; size <= 16; ++size) {
    for (std::uint32_t open = 0; open < (1U << std::min<std::size_t>(size, 12)); ++open) {
      std::array<pool_member, 16> pool;
      std::array<bool, 16> overruled;
      std::size_t ready = 0, ejected = 0, bound = 0;
      for (std::size_t i = 0; i < size; ++i) {
        pool[i] = {.ready = i % 5 != 3,
                   .ejected = (open >> i & 1U) != 0,
                   .from_ns = static_cast<std::int64_t>((i * 7) % 11)};
        ready += pool[i].ready ? 1 : 0;
      }
      overrule_ejections({pool.data(), size}, {overruled.data(), size});
      for (std::size_t i = 0; i < size; ++i) {
        if (overruled[i]) REQUIRE((pool[i].ready && pool[i].ejected));
        ejected += pool[i].ready && pool[i].ejected && !overruled[i] ? 1 : 0;
        bound += pool[i].ready && pool[i].ejected ? 1 : 0;
      }
      REQUIRE(ejected <= ejections_max(ready));
      REQUIRE(ejected == std::min(bound, ejections_max(ready)));
      if (ready > 0) REQUIRE(ejected < ready);
      if (ready < k_small_pool) REQUIRE(ejected * 2 <= ready);
    }
  }
  CHECK(ejections_max(1) == 0);
  CHECK(ejections_max(3) == 1);
  CHECK(ejections_max(20) == 19);
}

TEST_CASE("of too many ejected the ones that are due soonest are used") {
  const pool_member pool[] = {{.ejected = true, .from_ns = 9},
                              {.ejected = true, .from_ns = k_never_ns},
                              {.ready = false, .ejected = true, .from_ns = 1},
                              {.ejected = true, .from_ns = 5}};
  std::array<bool, 4> overruled{};
  overrule_ejections(pool, overruled);
  CHECK(overruled == std::array<bool, 4>{true, false, false, true});
}

TEST_CASE("a target takes part in its share of requests") {
  for (const double weight : {0.1, 0.5, 0.9}) {
    int taken = 0;
    for (std::uint64_t seed = 0; seed < 10'000; ++seed)
      taken += takes_part({.weight = weight}, false, seed, 3) ? 1 : 0;
    CHECK(taken / 10'000.0 == Approx(weight).margin(0.02));
  }
  CHECK(takes_part({}, true, 5, 0));
  CHECK(takes_part({.probe = true, .ejected = true}, false, 5, 0));
  CHECK_FALSE(takes_part({.probe = true, .ejected = true}, true, 5, 0));
}

}  // namespace
}  // namespace weir::policy::failover
