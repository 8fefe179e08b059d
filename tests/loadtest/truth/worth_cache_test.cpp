#include "loadtest/truth/worth_cache.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

namespace weir::loadtest::truth {
namespace {

using ids = std::vector<block_id>;

ids chain(block_id first, std::size_t count) {
  ids out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(first * 1000 + i);
  return out;
}

ids extended(ids head, const ids& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

constexpr worth_rules k_rules{.capacity_tokens = 100'000, .page_tokens = 512, .checkpoint_tokens = 16'000};

void send(worth_cache& cache, const ids& prompt, std::vector<std::size_t> hints, double now_s,
          std::vector<cache_change>* changes = nullptr) {
  cache.store(prompt, cache.match(prompt), hints, now_s, changes);
}

TEST_CASE("a prompt can be resumed where a hint put a checkpoint, and nowhere else") {
  worth_cache cache(k_rules);
  const auto prompt = chain(1, 20);
  send(cache, prompt, {20}, 0);
  const auto longer = extended(prompt, chain(2, 5));
  CHECK(cache.match(longer).pages == 20);
  CHECK(cache.match(longer).reusable == 20);
  auto fork = prompt;
  fork.resize(10);
  CHECK(cache.match(fork).pages == 10);
  CHECK(cache.match(fork).reusable == 0);
}

TEST_CASE("hints up to what was resumed, or beyond the prompt, store nothing") {
  worth_cache cache(k_rules);
  const auto prompt = chain(1, 20);
  send(cache, prompt, {20}, 0);
  const auto used = cache.used_tokens();
  send(cache, prompt, {0, 5, 20, 21, 1000}, 1);
  CHECK(cache.used_tokens() == used);
}

TEST_CASE("a checkpoint that a longer prompt grew from goes before those of other conversations") {
  worth_cache cache(k_rules);
  const auto first_turn = chain(1, 20);
  const auto second_turn = extended(first_turn, chain(2, 4));
  send(cache, first_turn, {20}, 0);
  send(cache, second_turn, {24}, 10);
  for (block_id other = 3; other <= 5; ++other) send(cache, chain(other, 20), {20}, 20);
  CHECK(cache.match(second_turn).reusable == 24);
  CHECK(cache.match(first_turn).reusable == 0);
  CHECK(cache.match(chain(3, 20)).reusable == 20);
}

TEST_CASE("with the last checkpoint of a chain go the pages that only it needed") {
  worth_cache cache({.capacity_tokens = 30'000, .page_tokens = 512, .checkpoint_tokens = 16'000});
  send(cache, chain(1, 20), {20}, 0);
  send(cache, chain(2, 20), {20}, 1000);
  CHECK(cache.match(chain(1, 20)).pages == 0);
  CHECK(cache.match(chain(2, 20)).reusable == 20);
  CHECK(cache.used_tokens() == 16'000 + 20 * 512);
}

TEST_CASE("a prompt larger than the pool leaves nothing behind") {
  worth_cache cache({.capacity_tokens = 10'000, .page_tokens = 512, .checkpoint_tokens = 16'000});
  send(cache, chain(1, 40), {40}, 0);
  CHECK(cache.used_tokens() <= 10'000);
  CHECK(cache.match(chain(1, 40)).reusable == 0);
}

TEST_CASE("changes tell exactly what is held, pages stay prefix-closed and the pool within its capacity") {
  std::mt19937_64 random(11);
  worth_cache cache(k_rules);
  std::set<block_id> pages;
  std::set<block_id> checkpoints;
  std::map<block_id, block_id> parent;
  std::vector<ids> sent;
  for (int step = 0; step < 3000; ++step) {
    ids prompt;
    if (!sent.empty() && random() % 3 != 0) {
      prompt = sent[random() % sent.size()];
      prompt.resize(1 + random() % prompt.size());
    }
    prompt = extended(prompt, chain(1000 + static_cast<block_id>(step), 1 + random() % 12));
    if (prompt.size() > 60) prompt.resize(60);
    for (std::size_t i = 1; i < prompt.size(); ++i) parent[prompt[i]] = prompt[i - 1];
    std::vector<std::size_t> hints;
    if (random() % 4 != 0) hints.push_back(prompt.size());
    if (random() % 3 == 0) hints.push_back(1 + random() % prompt.size());
    std::vector<cache_change> changes;
    send(cache, prompt, hints, step, &changes);
    for (const auto& c : changes) {
      auto& held = c.what == part::page ? pages : checkpoints;
      const bool changed = c.stored ? held.insert(c.id).second : held.erase(c.id) == 1;
      REQUIRE(changed);
    }
    const auto tokens = static_cast<std::int64_t>(pages.size()) * k_rules.page_tokens +
                        static_cast<std::int64_t>(checkpoints.size()) * k_rules.checkpoint_tokens;
    REQUIRE(tokens == cache.used_tokens());
    REQUIRE(tokens <= k_rules.capacity_tokens);
    for (const auto id : pages) REQUIRE((!parent.contains(id) || pages.contains(parent[id])));
    for (const auto id : checkpoints) REQUIRE(pages.contains(id));
    sent.push_back(std::move(prompt));
    if (sent.size() > 40) sent.erase(sent.begin());
  }
}

}  // namespace
}  // namespace weir::loadtest::truth
