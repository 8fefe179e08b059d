#include "engine/scheduler/fair_share.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

using weir::engine::scheduler::fair_share;

TEST_CASE("tenants take turns of a quantum, and pay back what a turn took beyond it", "[fair_share]") {
  fair_share share(10);
  share.add(1);
  share.add(2);
  const auto all = [](std::int32_t) { return true; };
  CHECK(share.next(all).tenant == 2);  // whoever; from here on in turn
  CHECK(share.next(all).tenant == 2);
  share.charge(2, 35);
  for (int turn = 0; turn < 3; ++turn) {
    CHECK(share.next(all).tenant == 1);
    CHECK(share.next(all).credit == 10);
    share.charge(1, 10);
  }
  share.charge(1, 5);
  CHECK(share.next(all).tenant == 2);
  CHECK(share.next(all).credit == 5);
  CHECK(share.next([](std::int32_t) { return false; }).tenant == -1);
  share.remove(2);
  CHECK(share.next(all).tenant == 1);
}

TEST_CASE("service is equal within one turn of each, whatever the sizes", "[fair_share]") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    constexpr std::int64_t k_quantum = 16;
    fair_share share(k_quantum);
    const auto tenants = static_cast<std::int32_t>(2 + random() % 6);
    std::map<std::int32_t, std::int64_t> served;
    for (std::int32_t t = 0; t < tenants; ++t) {
      share.add(t);
      served[t] = 0;
    }
    std::int64_t largest = 0;
    for (int step = 0; step < 2000; ++step) {
      const auto turn = share.next([](std::int32_t) { return true; });
      REQUIRE(turn.credit > 0);
      // Tenant 0 asks for much at once, the others for little.
      const auto size = static_cast<std::int64_t>(1 + random() % (turn.tenant == 0 ? 400 : 20));
      largest = std::max(largest, size);
      share.charge(turn.tenant, size);
      served[turn.tenant] += size;
      const auto [low, high] =
          std::ranges::minmax_element(served, {}, [](const auto& entry) { return entry.second; });
      REQUIRE(high->second - low->second <= largest + 2 * k_quantum);
    }
  }
}

TEST_CASE("tenants come and go", "[fair_share]") {
  constexpr std::uint64_t k_seed = 4;
  INFO("seed " << k_seed);
  std::mt19937_64 random(k_seed);
  fair_share share(7);
  std::set<std::int32_t> present;
  std::int32_t next = 0;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 4 == 0) {
      share.add(next);
      present.insert(next++);
    } else if (random() % 4 == 0 && !present.empty()) {
      share.remove(*present.begin());
      present.erase(present.begin());
    }
    const auto wants = [](std::int32_t t) { return t % 3 != 0; };
    const auto turn = share.next(wants);
    REQUIRE((turn.tenant >= 0) == std::ranges::any_of(present, wants));
    if (turn.tenant < 0) continue;
    REQUIRE(present.contains(turn.tenant));
    REQUIRE(wants(turn.tenant));
    share.charge(turn.tenant, static_cast<std::int64_t>(random() % 30));
  }
}
