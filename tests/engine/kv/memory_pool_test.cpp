#include "engine/kv/memory_pool.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace {

using weir::engine::kv::memory_op;
using weir::engine::kv::memory_pool;
using weir::engine::kv::page_owner;

// The pool beside memory whose every place and state holds a number that says what was put there.
class checked_pool final {
 public:
  checked_pool(std::int32_t slabs, std::int32_t slab_pages)
      : slab_pages_(slab_pages),
        pool_({slabs, slab_pages}),
        memory_(static_cast<std::size_t>(slabs * slab_pages)) {}

  // Mostly takes or mostly gives back, for a while each, so that it is full and scattered by turns.
  void step(std::mt19937_64& random, bool filling) {
    switch (random() % 8) {
      case 0:
        add_state();
        break;
      case 1:
        drop_state(random);
        break;
      case 2:
        change_page(random);
        break;
      default:
        if (filling) {
          add_page();
        } else {
          change_page(random);
        }
    }
    check();
  }

  int moves() const { return moves_; }
  int refused() const { return refused_; }

 private:
  struct holder {
    int sequences = 1;
    int caches = 0;
    int content = 0;
  };

  void add_page() {
    const bool fits = pool_.free_pages() > 0;
    const auto page = pool_.acquire_page();
    REQUIRE(page.has_value() == fits);
    if (!page) {
      ++refused_;
      return;
    }
    REQUIRE(pages_.emplace(*page, holder{1, 0, next_}).second);
    memory_[static_cast<std::size_t>(pool_.place(*page))] = next_++;
  }

  void add_state() {
    const bool fits = pool_.free_pages() >= slab_pages_;
    auto slab = pool_.acquire_state();
    if (!slab) {
      std::vector<memory_op> ops;
      REQUIRE(pool_.empty_slab(ops) == fits);
      for (const memory_op& op : ops) {
        REQUIRE(op.what == memory_op::kind::copy_page);
        memory_[static_cast<std::size_t>(op.to)] = memory_[static_cast<std::size_t>(op.from)];
      }
      moves_ += static_cast<int>(ops.size());
      slab = pool_.acquire_state();
    }
    REQUIRE(slab.has_value() == fits);
    if (!slab) return;
    REQUIRE(states_.emplace(*slab, next_).second);
    std::fill_n(memory_.begin() + *slab * slab_pages_, slab_pages_, next_++);
  }

  void drop_state(std::mt19937_64& random) {
    if (states_.empty()) return;
    auto it = states_.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(random() % states_.size()));
    pool_.release_state(it->first);
    states_.erase(it);
  }

  void change_page(std::mt19937_64& random) {
    if (pages_.empty()) return;
    auto it = pages_.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(random() % pages_.size()));
    const auto owner = random() % 2 == 0 ? page_owner::sequence : page_owner::cache;
    int& references = owner == page_owner::sequence ? it->second.sequences : it->second.caches;
    if (references == 0 || random() % 6 == 0) {
      pool_.retain_page(it->first, owner);
      ++references;
      return;
    }
    pool_.release_page(it->first, owner);
    --references;
    if (it->second.sequences + it->second.caches == 0) pages_.erase(it);
  }

  void check() const {
    std::set<std::int32_t> places;
    int cached = 0;
    for (const auto& [page, held] : pages_) {
      const std::int32_t place = pool_.place(page);
      REQUIRE(place >= 0);
      REQUIRE(place < pool_.total_pages());
      REQUIRE(places.insert(place).second);
      REQUIRE_FALSE(states_.contains(place / slab_pages_));
      REQUIRE(memory_[static_cast<std::size_t>(place)] == held.content);
      cached += held.sequences == 0 ? 1 : 0;
    }
    for (const auto& [slab, content] : states_) {
      for (std::int32_t i = 0; i < slab_pages_; ++i) {
        REQUIRE(memory_[static_cast<std::size_t>(slab * slab_pages_ + i)] == content);
      }
    }
    REQUIRE(pool_.used_pages() == static_cast<std::int32_t>(pages_.size()));
    REQUIRE(pool_.states() == static_cast<std::int32_t>(states_.size()));
    REQUIRE(pool_.cached_pages() == cached);
    REQUIRE(pool_.used_pages() + static_cast<std::int64_t>(pool_.states()) * slab_pages_ +
                pool_.free_pages() ==
            pool_.total_pages());
  }

  std::int32_t slab_pages_;
  memory_pool pool_;
  std::vector<int> memory_;  // by place
  std::map<std::int32_t, holder> pages_;
  std::map<std::int32_t, int> states_;  // slab -> content
  int next_ = 1;
  int moves_ = 0;
  int refused_ = 0;
};

}  // namespace

TEST_CASE("a slab is a state or pages, and free again when its last page goes", "[memory_pool]") {
  memory_pool pool({2, 3});
  CHECK(pool.total_pages() == 6);
  const auto state = pool.acquire_state();
  REQUIRE(state);
  const auto page = pool.acquire_page();
  REQUIRE(page);
  CHECK(pool.place(*page) / 3 != *state);
  CHECK(pool.free_pages() == 2);
  CHECK_FALSE(pool.acquire_state());
  std::vector<memory_op> ops;
  CHECK_FALSE(pool.empty_slab(ops));
  pool.retain_page(*page, page_owner::cache);
  CHECK(pool.cached_pages() == 0);
  pool.release_page(*page, page_owner::sequence);
  CHECK(pool.cached_pages() == 1);
  pool.release_page(*page, page_owner::cache);
  CHECK(pool.cached_pages() == 0);
  CHECK(pool.free_pages() == 3);
  CHECK(pool.acquire_state());
  CHECK_FALSE(pool.acquire_page());
}

TEST_CASE("free places spread over slabs make room for a state", "[memory_pool]") {
  memory_pool pool({2, 2});
  std::vector<std::int32_t> pages;
  for (int i = 0; i < 4; ++i) pages.push_back(pool.acquire_page().value());
  for (const std::size_t i : {0U, 2U}) pool.release_page(pages[i], page_owner::sequence);
  CHECK_FALSE(pool.acquire_state());
  const std::int32_t before = pool.place(pages[1]);
  const std::int32_t other = pool.place(pages[3]);
  std::vector<memory_op> ops;
  REQUIRE(pool.empty_slab(ops));
  REQUIRE(ops.size() == 1);
  CHECK((ops[0].from == before || ops[0].from == other));
  CHECK(pool.place(pages[1]) / 2 == pool.place(pages[3]) / 2);
  CHECK(pool.acquire_state());
  CHECK(pool.free_pages() == 0);
}

TEST_CASE("random use keeps every content in its one place", "[memory_pool]") {
  int moves = 0;
  int refused = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    const auto slabs = static_cast<std::int32_t>(1 + random() % 9);
    const auto slab_pages = static_cast<std::int32_t>(1 + random() % 7);
    checked_pool pool(slabs, slab_pages);
    for (int step = 0; step < 600; ++step) pool.step(random, step / 40 % 2 == 0);
    moves += pool.moves();
    refused += pool.refused();
  }
  CHECK(moves > 100);
  CHECK(refused > 100);
}
