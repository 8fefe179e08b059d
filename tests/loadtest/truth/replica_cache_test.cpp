#include "loadtest/truth/replica_cache.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <list>
#include <map>
#include <random>
#include <string>

namespace weir::loadtest::truth {
namespace {

using key = std::pair<part, block_id>;

// The same rules over plain containers, found by looking at everything.
struct plain_cache {
  struct held {
    double saved = 0;
    double frequency = 0;
    double priority = 0;
    int tick = 0;
  };

  explicit plain_cache(const cache_rules& given) : rules(given) {}

  std::int64_t cost(part what) const {
    return what == part::page ? rules.page_tokens : rules.checkpoint_tokens;
  }

  std::int64_t used() const {
    std::int64_t sum = 0;
    for (const auto& [name, _] : all) sum += cost(name.first);
    return sum;
  }

  void put(part what, block_id id, double saved) {
    const key name{what, id};
    auto& one = all[name];
    one.frequency += 1;
    one.saved = std::max(one.saved, saved);
    one.tick = ++ticks;
    one.priority = rules.eviction == eviction_order::lru
                       ? one.tick
                       : clock + one.frequency * one.saved / static_cast<double>(cost(what));
    while (used() > rules.capacity_tokens) {
      const auto least = std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
        return std::pair(a.second.priority, a.second.tick) < std::pair(b.second.priority, b.second.tick);
      });
      clock = least->second.priority;
      all.erase(least);
    }
  }

  void checkpoint(const std::vector<block_id>& h, std::size_t at) {
    put(part::checkpoint, h[at - 1], static_cast<double>(at) * static_cast<double>(rules.page_tokens));
  }

  cache_match match(const std::vector<block_id>& h) const {
    cache_match m;
    while (m.pages < h.size() && all.contains({part::page, h[m.pages]})) ++m.pages;
    for (std::size_t b = 1; b <= m.pages; ++b)
      if (rules.dense || all.contains({part::checkpoint, h[b - 1]})) m.reusable = b;
    return m;
  }

  void intervals(const std::vector<block_id>& h, std::size_t reusable) {
    for (std::size_t b = reusable + 1; rules.interval_pages > 0 && b <= h.size(); ++b)
      if (b % static_cast<std::size_t>(rules.interval_pages) == 0) checkpoint(h, b);
  }

  void store(const std::vector<block_id>& h, const std::vector<std::size_t>& hints) {
    const auto m = match(h);
    for (auto at = h.size(); at > 0; --at) put(part::page, h[at - 1], static_cast<double>(rules.page_tokens));
    if (rules.dense || h.empty()) return;
    std::vector<std::size_t> wished;
    std::copy_if(hints.begin(), hints.end(), std::back_inserter(wished),
                 [&](std::size_t b) { return b > m.reusable && b <= h.size(); });
    const bool again = rules.second_sighting && m.pages > m.reusable;
    if (rules.eviction == eviction_order::lru) {
      intervals(h, m.reusable);
      if (rules.prompt_end) checkpoint(h, h.size());
      if (again && m.pages < h.size()) checkpoint(h, m.pages);
      for (const auto b : wished) checkpoint(h, b);
      if (m.reusable > 0 && all.contains({part::checkpoint, h[m.reusable - 1]})) checkpoint(h, m.reusable);
    } else {
      if (m.reusable > 0) checkpoint(h, m.reusable);
      if (again && hints.empty()) checkpoint(h, m.pages);
      for (const auto b : wished) checkpoint(h, b);
      intervals(h, m.reusable);
      if (rules.prompt_end) checkpoint(h, h.size());
    }
  }

  cache_rules rules;
  std::map<key, held> all;
  double clock = 0;
  int ticks = 0;
};

// A branch of a tree of prompts: ids name the whole way from the root.
std::vector<block_id> draw_prompt(std::mt19937_64& random) {
  std::vector<block_id> prompt;
  block_id at = 1;
  for (auto length = random() % 13; length > 0; --length) {
    at = at * 3 + (random() % 4 == 0 ? 1 + random() % 2 : 0);
    prompt.push_back(at);
  }
  return prompt;
}

struct rules_case {
  const char* name;
  cache_rules rules;
  bool hinted = false;
};

std::vector<rules_case> rules_cases() {
  const cache_rules base{.capacity_tokens = 300, .page_tokens = 8, .checkpoint_tokens = 21};
  std::vector<rules_case> out(9, {"", base});
  out[0].name = "second sighting";
  out[1].name = "prompt end";
  out[1].rules.second_sighting = false;
  out[2].name = "dense";
  out[2].rules.dense = true;
  out[3].name = "interval";
  out[3].rules.interval_pages = 3;
  out[4].name = "value";
  out[4].rules.eviction = eviction_order::value;
  out[5].name = "second sighting and hints";
  out[5].hinted = true;
  out[6].name = "value and hints";
  out[6].rules.eviction = eviction_order::value;
  out[6].hinted = true;
  out[7].name = "interval by value, no prompt end";
  out[7].rules.eviction = eviction_order::value;
  out[7].rules.interval_pages = 2;
  out[7].rules.prompt_end = false;
  out[8].name = "a pool smaller than a checkpoint";
  out[8].rules.capacity_tokens = 20;
  return out;
}

void check_changes(const std::vector<cache_change>& changes, std::map<key, bool>& mirror) {
  for (const auto& one : changes) {
    const key name{one.what, one.id};
    REQUIRE(mirror[name] != one.stored);
    mirror[name] = one.stored;
  }
}

TEST_CASE("a replica's cache keeps its rules, however they are written down") {
  for (const auto& [name, rules, hinted] : rules_cases()) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      INFO(name << ", seed " << seed);
      std::mt19937_64 random(seed);
      replica_cache cache(rules);
      plain_cache plain(rules);
      std::map<key, bool> mirror;
      std::vector<cache_change> changes;
      std::size_t reused = 0;
      for (int n = 0; n < 200; ++n) {
        const auto prompt = draw_prompt(random);
        std::vector<std::size_t> hints;
        if (hinted && random() % 2 == 0) hints.push_back(random() % 14);
        const auto match = cache.match(prompt);
        const auto expected = plain.match(prompt);
        REQUIRE(match.pages == expected.pages);
        REQUIRE(match.reusable == expected.reusable);
        reused += match.reusable;
        changes.clear();
        cache.store(prompt, match, hints, &changes);
        plain.store(prompt, hints);
        REQUIRE(cache.used_tokens() == plain.used());
        check_changes(changes, mirror);
        std::size_t held = 0;
        for (const auto& [one, is_held] : mirror) {
          REQUIRE(plain.all.contains(one) == is_held);
          REQUIRE(cache.holds(one.second, one.first) == is_held);
          held += is_held ? 1 : 0;
        }
        REQUIRE(held == plain.all.size());
      }
      CHECK((reused > 0 || rules.capacity_tokens < rules.checkpoint_tokens));
    }
  }
}

TEST_CASE("a junction earns a checkpoint at its second sighting and serves the third") {
  replica_cache cache({.capacity_tokens = 100'000, .page_tokens = 512, .checkpoint_tokens = 16'253});
  const std::vector<block_id> first{1, 2, 3};
  const std::vector<block_id> second{1, 2, 4};
  const std::vector<block_id> third{1, 2, 5};
  cache.store(first, cache.match(first));
  const auto again = cache.match(second);
  CHECK(again.pages == 2);
  CHECK(again.reusable == 0);
  cache.store(second, again);
  CHECK(cache.match(third).reusable == 2);
  cache.clear();
  CHECK(cache.match(third).pages == 0);
  CHECK(cache.used_tokens() == 0);
}

TEST_CASE("the table of slots finds what stays when others leave") {
  std::mt19937_64 random(7);
  slot_table table;
  std::map<key, std::uint32_t> plain;
  for (int n = 0; n < 20'000; ++n) {
    const key name{random() % 2 == 0 ? part::page : part::checkpoint, random() % 1'500};
    const auto slot = static_cast<std::uint32_t>(n);
    if (table.find(name.second, name.first) == slot_table::k_none) {
      table.insert(name.second, name.first, slot);
      plain[name] = slot;
    } else {
      table.erase(name.second, name.first);
      plain.erase(name);
    }
  }
  REQUIRE(table.size() == plain.size());
  REQUIRE(plain.size() > 1'000);
  for (const auto& [name, slot] : plain) CHECK(table.find(name.second, name.first) == slot);
}

}  // namespace
}  // namespace weir::loadtest::truth
