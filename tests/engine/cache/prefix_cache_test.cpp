#include "engine/cache/prefix_cache.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace weir::engine;
using cache::checkpoint_kind;
using tokens_t = std::vector<std::int32_t>;

tokens_t counted(std::int32_t count, std::int32_t first = 0) {
  tokens_t out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

std::span<const std::int32_t> first_of(const tokens_t& tokens, std::int32_t count) {
  return std::span(tokens).first(static_cast<std::size_t>(count));
}

// A cache with its pool, and the steps that a sequence goes through.
struct bench {
  bench(std::int32_t slabs, std::int32_t slab_pages, const cache::cache_config& config)
      : page_tokens(config.page_tokens), pool({slabs, slab_pages}), cache(config, pool) {}

  // As a sequence that computed all of `tokens`, kept its state after `at` of them, and ended.
  tokens_t keep(const std::string& scope, const tokens_t& tokens, std::int32_t at,
                checkpoint_kind kind = checkpoint_kind::prompt_end) {
    tokens_t pages;
    for (std::int32_t i = 0; i < (at - 1) / page_tokens + 1; ++i)
      pages.push_back(pool.acquire_page().value());
    cache.store(scope, first_of(tokens, at), pages, pool.acquire_state().value(), kind);
    for (const std::int32_t page : pages) pool.release_page(page, kv::page_owner::sequence);
    return pages;
  }

  std::int32_t page_tokens;
  kv::memory_pool pool;
  cache::prefix_cache cache;
};

std::int32_t reusable(const bench& b, const std::string& scope, const tokens_t& tokens) {
  return b.cache.match(scope, tokens, static_cast<std::int32_t>(tokens.size()) - 1).reusable;
}

}  // namespace

TEST_CASE("a hit is the deepest checkpoint that leaves a token to compute", "[prefix_cache]") {
  bench b(20, 2, {.unit_tokens = 4, .page_tokens = 4});
  const tokens_t prompt = counted(20);
  const tokens_t pages = b.keep("a", prompt, 12);
  b.keep("a", prompt, 4, checkpoint_kind::hint);
  CHECK(reusable(b, "a", prompt) == 12);
  CHECK(reusable(b, "a", counted(13)) == 12);
  CHECK(reusable(b, "a", counted(12)) == 4);
  CHECK(reusable(b, "a", counted(4)) == 0);
  CHECK(reusable(b, "b", prompt) == 0);
  CHECK(reusable(b, "", prompt) == 0);
  tokens_t other = prompt;
  other[11] = 99;
  CHECK(reusable(b, "a", other) == 4);
  const auto match = b.cache.match("a", prompt, 19);
  CHECK(match.pages == pages);
  CHECK(match.known == 12);
  CHECK_FALSE(b.cache.wants("a", first_of(prompt, 12)));
  CHECK(b.cache.wants("a", first_of(prompt, 8)));
  CHECK(b.cache.wants("a", first_of(prompt, 16)));
}

TEST_CASE("a prefix seen a second time is known before anything of it is held", "[prefix_cache]") {
  bench b(20, 2, {.unit_tokens = 4, .page_tokens = 8});
  const tokens_t prompt = counted(30);
  CHECK(b.cache.match("a", prompt, 29).known == 0);
  b.cache.remember("a", prompt);
  CHECK(b.cache.match("a", prompt, 29).known == 28);
  CHECK(b.cache.match("a", prompt, 27).known == 24);
  CHECK(b.cache.match("b", prompt, 29).known == 0);
  tokens_t other = prompt;
  other[17] = 99;
  CHECK(b.cache.match("a", other, 29).known == 16);
  CHECK(b.cache.match("a", other, 29).reusable == 0);
  CHECK(b.pool.used_pages() == 0);
}

TEST_CASE("what is remembered without being held is bounded, the oldest goes", "[prefix_cache]") {
  bench b(20, 2, {.unit_tokens = 4, .page_tokens = 4, .remembered_tokens_max = 40});
  b.cache.remember("a", counted(20, 0));
  b.cache.remember("b", counted(20, 100));
  CHECK(b.cache.match("a", counted(20, 0), 20).known == 20);
  b.cache.remember("a", counted(20, 0));
  b.cache.remember("c", counted(8, 200));
  CHECK(b.cache.match("a", counted(20, 0), 20).known == 20);
  CHECK(b.cache.match("b", counted(20, 100), 20).known == 12);
  b.cache.remember("d", counted(400, 300));
  CHECK(b.cache.match("a", counted(20, 0), 20).known == 0);
  CHECK(b.cache.match("d", counted(400, 300), 400).known == 40);
  b.keep("e", counted(40, 900), 40);  // held ones do not count
  b.cache.remember("d", counted(40, 300));
  CHECK(b.cache.match("e", counted(41, 900), 40).reusable == 40);
}

TEST_CASE("evicted first is what saves least per byte, by frequency and age", "[prefix_cache]") {
  // A state weighs as 100 pages, so pages hardly count.
  bench b(30, 100, {.unit_tokens = 4, .page_tokens = 4});
  const tokens_t shared = counted(40);
  b.keep("a", shared, 40);
  b.keep("b", counted(16, 100), 16);
  b.keep("c", counted(24, 200), 24);
  const auto hit = [&b](const std::string& scope, const tokens_t& tokens) {
    b.cache.use(b.cache.match(scope, tokens, static_cast<std::int32_t>(tokens.size()) - 1));
  };
  for (int i = 0; i < 2; ++i) hit("b", counted(17, 100));  // 48 saved in all
  REQUIRE(b.cache.evict());
  CHECK(reusable(b, "c", counted(25, 200)) == 0);
  CHECK(reusable(b, "a", counted(41)) == 40);
  CHECK(reusable(b, "b", counted(17, 100)) == 16);
  // A deeper one is worth what it saves beyond the one before it.
  tokens_t longer = shared;
  longer.push_back(7);
  longer.resize(44, 7);
  b.keep("a", longer, 44);
  REQUIRE(b.cache.evict());
  CHECK(b.cache.match("a", longer, 44).reusable == 40);
  // Ageing: what was useful once goes when newer things came and went.
  for (int i = 0; i < 60; ++i) {
    b.keep("d" + std::to_string(i), counted(40, 1000 + i), 40);
    REQUIRE(b.cache.evict());
  }
  CHECK(reusable(b, "b", counted(17, 100)) == 0);
}

TEST_CASE("losing the checkpoint before it makes one worth more", "[prefix_cache]") {
  bench b(30, 100, {.unit_tokens = 4, .page_tokens = 4});
  b.keep("a", counted(36), 36, checkpoint_kind::hint);
  b.keep("a", counted(40), 40);                      // saves 4
  b.cache.use(b.cache.match("a", counted(40), 39));  // the first one: 72
  b.keep("b", counted(20, 100), 20);                 // saves 20
  REQUIRE(b.cache.evict());
  CHECK(reusable(b, "a", counted(41)) == 36);
  CHECK(reusable(b, "b", counted(21, 100)) == 20);
}

TEST_CASE("pages stay as long as a checkpoint or a sequence needs them", "[prefix_cache]") {
  bench b(20, 2, {.unit_tokens = 2, .page_tokens = 4});
  const tokens_t prompt = counted(16);
  b.keep("a", prompt, 6);
  CHECK(b.pool.used_pages() == 2);
  CHECK(b.pool.cached_pages() == 2);
  CHECK(b.cache.evictable_pages() == 2 + 2);
  // The second page of the deeper checkpoint is its own copy; the cache takes only that and what is behind.
  const tokens_t deeper = b.keep("a", prompt, 14);
  const auto match = b.cache.match("a", prompt, 15);
  CHECK(match.reusable == 14);
  CHECK(match.pages[1] == deeper[1]);
  b.pool.retain_page(match.pages[3], kv::page_owner::sequence);
  while (b.cache.evict()) continue;
  CHECK(b.cache.evictable_pages() == 0);
  CHECK(b.pool.used_pages() == 1);
  CHECK(b.pool.cached_pages() == 0);
  b.pool.release_page(match.pages[3], kv::page_owner::sequence);
  CHECK(b.pool.free_pages() == b.pool.total_pages());
}

TEST_CASE("random use agrees with a list of prefixes", "[prefix_cache]") {
  std::uint64_t hits = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    const auto unit = static_cast<std::int32_t>(1 + random() % 6);
    bench b(40, 3,
            {.unit_tokens = unit,
             .page_tokens = static_cast<std::int32_t>(1 + random() % 9),
             .hash_seed = seed,
             .events = true});
    std::map<std::pair<std::string, tokens_t>, int> held;  // what was stored, less what events say went
    std::map<std::uint64_t, std::pair<std::string, tokens_t>> by_hash;
    for (int step = 0; step < 300; ++step) {
      const std::string scope(random() % 2, 's');
      tokens_t prompt;
      for (std::uint64_t i = 1 + random() % 24; i > 0; --i) {
        prompt.push_back(static_cast<std::int32_t>(random() % 8 == 0 ? random() % 2 : 0));
      }
      const auto size = static_cast<std::int32_t>(prompt.size());
      std::int32_t deepest = 0;
      for (std::int32_t at = unit; at < size; at += unit) {
        if (held.contains({scope, tokens_t(prompt.begin(), prompt.begin() + at)})) deepest = at;
      }
      REQUIRE(reusable(b, scope, prompt) == deepest);
      hits += deepest > 0 ? 1 : 0;
      b.cache.use(b.cache.match(scope, prompt, size - 1));
      const std::int32_t at = size / unit * unit;
      const bool room = b.pool.free_pages() > 3 + 24;
      if (at > 0 && b.cache.wants(scope, first_of(prompt, at)) && room) {
        b.keep(scope, prompt, at);
        ++held[{scope, tokens_t(prompt.begin(), prompt.begin() + at)}];
      }
      if (!room || random() % 10 == 0) b.cache.evict();
      for (const cache::cache_event& event : b.cache.take_events()) {
        if (event.of != cache::cache_event::group::kda_checkpoint) continue;
        if (event.what == cache::cache_event::kind::stored) {
          REQUIRE(event.position == at);
          by_hash[event.hash] = {scope, tokens_t(prompt.begin(), prompt.begin() + at)};
        } else {
          REQUIRE(by_hash.contains(event.hash));
          held.erase(by_hash.at(event.hash));
        }
      }
      REQUIRE(static_cast<std::size_t>(b.cache.checkpoint_count()) == held.size());
      REQUIRE(b.pool.states() == b.cache.checkpoint_count());
      REQUIRE(b.pool.used_pages() == b.pool.cached_pages());
    }
    while (b.cache.evict()) continue;
    REQUIRE(b.pool.free_pages() == b.pool.total_pages());
  }
  CHECK(hits > 500);
}

TEST_CASE("events tell the blocks and checkpoints that are there", "[prefix_cache]") {
  using event = cache::cache_event;
  bench b(20, 2, {.unit_tokens = 4, .page_tokens = 8, .events = true});
  b.keep("tenant", counted(12), 8);
  auto events = b.cache.take_events();
  REQUIRE(events.size() == 3);
  CHECK(events[0].of == event::group::mla_pages);
  CHECK(events[0].position == 4);
  CHECK(events[0].scope == "tenant");
  CHECK(events[0].tokens == counted(4));
  CHECK(events[1].parent_hash == events[0].hash);
  CHECK(events[1].tokens == counted(4, 4));
  CHECK(events[2].of == event::group::kda_checkpoint);
  CHECK(events[2].hash == events[1].hash);
  CHECK(events[2].position == 8);
  CHECK(b.cache.take_events().empty());
  b.keep("other", counted(12), 8);
  CHECK(b.cache.take_events()[0].hash != events[0].hash);
  b.keep("tenant", counted(12), 12);
  CHECK(b.cache.take_events().size() == 2);
  b.cache.use(b.cache.match("tenant", counted(13), 12));
  b.cache.use(b.cache.match("other", counted(13), 12));
  b.cache.use(b.cache.match("other", counted(13), 12));
  REQUIRE(b.cache.evict());  // the one at 8, which saves its tokens less often
  events = b.cache.take_events();
  REQUIRE(!events.empty());
  for (const event& e : events) CHECK(e.what == event::kind::removed);
}
