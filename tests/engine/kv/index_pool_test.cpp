#include "engine/kv/index_pool.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <random>

using weir::engine::kv::index_pool;

TEST_CASE("an index comes back when its last reference goes", "[index_pool]") {
  index_pool pool(2);
  const auto first = pool.acquire();
  const auto second = pool.acquire();
  CHECK(first != second);
  CHECK(pool.available() == 0);
  pool.retain(first);
  pool.release(first);
  CHECK(pool.available() == 0);
  pool.release(first);
  CHECK(pool.available() == 1);
  CHECK(pool.acquire() == first);
  pool.release(first);
  pool.release(second);
  CHECK(pool.used() == 0);
}

TEST_CASE("random use conserves every index", "[index_pool]") {
  constexpr std::uint64_t k_seed = 7;
  INFO("seed " << k_seed);
  std::mt19937_64 random(k_seed);
  index_pool pool(37);
  std::map<std::int32_t, int> held;
  int full = 0;
  for (int step = 0; step < 20000; ++step) {
    if (held.empty() || (random() % 2 == 0 && pool.available() > 0)) {
      const auto index = pool.acquire();
      REQUIRE(index >= 0);
      REQUIRE(index < 37);
      REQUIRE(held.emplace(index, 1).second);
    } else {
      auto it = held.begin();
      std::advance(it, static_cast<std::ptrdiff_t>(random() % held.size()));
      if (random() % 3 == 0) {
        pool.retain(it->first);
        ++it->second;
      } else {
        pool.release(it->first);
        if (--it->second == 0) held.erase(it);
      }
    }
    REQUIRE(pool.used() == static_cast<std::int32_t>(held.size()));
    REQUIRE(pool.used() + pool.available() == pool.count());
    full += pool.available() == 0 ? 1 : 0;
  }
  CHECK(full > 0);
}
