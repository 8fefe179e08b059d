// The model against the plain rules: one ordered list of pages and checkpoints, the oldest first.
#include "prefix_index/replica_model.hpp"

#include <catch2/catch.hpp>
#include <list>
#include <map>

#include "tests/prefix_index/chains.hpp"

namespace weir::prefix_index {
namespace {

constexpr std::uint32_t k_unit = 64;

struct rules {
  std::uint64_t capacity;
  std::uint64_t checkpoint_tokens;
  retention keeps;
  std::uint32_t interval = 0;
};

class reference_pool {
 public:
  explicit reference_pool(const rules& r) : rules_(r) {}

  dispatch_result dispatched(const std::vector<block_key>& h, const std::vector<std::uint32_t>& hints = {}) {
    const auto held = holds(h);
    if (h.empty()) return held;
    const auto units = static_cast<std::uint32_t>(h.size());
    for (auto u = units; u-- > 0;) put(name(h[u], false), k_unit);
    if (rules_.keeps == retention::dense) return held;
    for (auto u = units; u > 0; --u) {
      const bool end = u == units;
      const bool junction = rules_.keeps != retention::prompt_end && u == held.pages &&
                            held.pages > held.checkpoint && held.pages < units;
      const bool interval =
          rules_.keeps == retention::interval && u > held.checkpoint && u % rules_.interval == 0;
      const bool hinted = u > held.checkpoint && std::find(hints.begin(), hints.end(), u) != hints.end();
      if (end || junction || interval || hinted) put(name(h[u - 1], true), rules_.checkpoint_tokens);
    }
    if (held.checkpoint != 0) touch(name(h[held.checkpoint - 1], true));
    return held;
  }

  dispatch_result holds(const std::vector<block_key>& h) const {
    dispatch_result out;
    while (out.pages < h.size() && at_.contains(name(h[out.pages], false))) ++out.pages;
    out.checkpoint = out.pages;
    if (rules_.keeps != retention::dense) {
      while (out.checkpoint > 0 && !at_.contains(name(h[out.checkpoint - 1], true))) --out.checkpoint;
    }
    return out;
  }

  void set_capacity(std::uint64_t tokens) {
    rules_.capacity = tokens;
    evict();
  }

  std::uint64_t used() const { return used_; }

 private:
  using entry = std::pair<std::uint64_t, bool>;
  static entry name(const block_key& key, bool checkpoint) { return {key.low, checkpoint}; }

  void touch(const entry& e) {
    const auto found = at_.find(e);
    if (found != at_.end()) order_.splice(order_.end(), order_, found->second);
  }
  void put(const entry& e, std::uint64_t cost) {
    if (at_.contains(e)) return touch(e);
    order_.emplace_back(e, cost);
    at_[e] = std::prev(order_.end());
    used_ += cost;
    evict();
  }
  void evict() {
    while (used_ > rules_.capacity) {
      used_ -= order_.front().second;
      at_.erase(order_.front().first);
      order_.pop_front();
    }
  }

  rules rules_;
  std::uint64_t used_ = 0;
  std::list<std::pair<entry, std::uint64_t>> order_;
  std::map<entry, std::list<std::pair<entry, std::uint64_t>>::iterator> at_;
};

holding lookup(const residency_index& index, const std::vector<block_key>& chain) {
  holding out;
  const replica_id replica = 3;
  index.find(chain, std::span(&replica, 1), std::span(&out, 1));
  return out;
}

TEST_CASE("the model holds exactly what the rules say, whatever the pool and the retention") {
  const struct {
    const char* name;
    rules r;
    std::uint32_t units_max;
  } k_cases[] = {
      {"dense, ample", {2000 * k_unit, 1000, retention::dense}, 60},
      {"dense, small", {100 * k_unit, 1000, retention::dense}, 60},
      {"dense, prompts larger than the pool", {20 * k_unit, 1000, retention::dense}, 60},
      {"prompt end", {400 * k_unit, 1000, retention::prompt_end}, 60},
      {"second sighting", {400 * k_unit, 1000, retention::prompt_end_second_sighting}, 60},
      {"second sighting, K3's weight", {2000 * k_unit, 16'253, retention::prompt_end_second_sighting}, 200},
      {"second sighting, tiny", {30 * k_unit, 500, retention::prompt_end_second_sighting}, 60},
      {"a checkpoint larger than the pool", {30 * k_unit, 5000, retention::prompt_end_second_sighting}, 60},
      {"one unit", {k_unit, 1, retention::prompt_end_second_sighting}, 3},
      {"nothing fits", {k_unit - 1, 1, retention::prompt_end_second_sighting}, 3},
      {"interval", {600 * k_unit, 300, retention::interval, 8}, 80},
      {"interval, tiny", {40 * k_unit, 300, retention::interval, 3}, 80},
      {"light checkpoints, long chains", {9000 * k_unit, 70, retention::interval, 16}, 2500},
  };
  for (const auto& c : k_cases) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      INFO(c.name << ", seed " << seed);
      chain_maker chains(seed);
      residency_index index;
      replica_model model(index, 3,
                          {.capacity_tokens = c.r.capacity,
                           .unit_tokens = k_unit,
                           .checkpoint_tokens = static_cast<std::uint32_t>(c.r.checkpoint_tokens),
                           .keeps = c.r.keeps,
                           .interval_units = c.r.interval});
      reference_pool pool(c.r);
      const int rounds = c.units_max > 1000 ? 60 : 600;
      for (int round = 0; round < rounds; ++round) {
        const auto chain = chains.next(c.units_max);
        const auto expected = pool.holds(chain);
        const auto seen = lookup(index, chain);
        REQUIRE(seen.pages == expected.pages);
        REQUIRE(seen.checkpoint == expected.checkpoint);
        std::vector<std::uint32_t> hints;
        if (chains.below(4) == 0) hints = {chains.below(c.units_max), chains.below(c.units_max), 0};
        const auto held = model.dispatched(chain, hints);
        pool.dispatched(chain, hints);
        REQUIRE(held.pages == expected.pages);
        REQUIRE(held.checkpoint == expected.checkpoint);
        REQUIRE(model.used_tokens() == pool.used());
        if (chains.below(50) == 0) {
          const auto capacity = c.r.capacity / (1 + chains.below(2));
          model.set_capacity(capacity);
          pool.set_capacity(capacity);
          REQUIRE(model.used_tokens() == pool.used());
        }
      }
    }
  }
}

replica_model_options small_options(retention keeps) {
  return {.capacity_tokens = 1'000'000, .checkpoint_tokens = 1000, .keeps = keeps};
}

// Long pages: the same as a model whose units are the pages, in an ample pool. In a full one a page that two
// prompts share in part counts less than in the replica.
TEST_CASE("pages of several units are kept, parted and resumed whole") {
  constexpr std::uint32_t k_page_units = 4;
  for (const auto keeps : {retention::dense, retention::prompt_end, retention::prompt_end_second_sighting}) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      INFO("retention " << static_cast<int>(keeps) << ", seed " << seed);
      chain_maker chains(seed);
      residency_index index, coarse_index;
      const replica_model_options options{.capacity_tokens = 1ULL << 30,
                                          .unit_tokens = k_unit,
                                          .page_tokens = k_page_units * k_unit,
                                          .checkpoint_tokens = 1000,
                                          .keeps = keeps};
      auto coarse_options = options;
      coarse_options.unit_tokens = k_page_units * k_unit;
      replica_model model(index, 3, options);
      replica_model coarse(coarse_index, 3, coarse_options);
      for (int round = 0; round < 600; ++round) {
        const auto chain = chains.next(60);
        std::vector<block_key> pages;
        for (std::size_t end = k_page_units; end <= chain.size(); end += k_page_units)
          pages.push_back(chain[end - 1]);
        const auto held = model.dispatched(chain);
        const auto expected = coarse.dispatched(pages);
        REQUIRE(held.pages == expected.pages * k_page_units);
        REQUIRE(held.checkpoint == expected.checkpoint * k_page_units);
      }
    }
  }
}

TEST_CASE("pages that end within a unit: the next whole unit stands for them") {
  chain_maker chains(5);
  residency_index index;
  replica_model model(index, 3,
                      {.capacity_tokens = 1'000'000,
                       .unit_tokens = k_unit,
                       .page_tokens = 528,
                       .checkpoint_tokens = 1000,
                       .keeps = retention::prompt_end});
  const auto chain = chains.fresh_chain(30);  // 1920 tokens, 3 pages of 528: 1584 tokens in 25 units
  model.dispatched(chain);
  CHECK(lookup(index, chain).checkpoint == 25);
  CHECK(model.dispatched(std::vector(chain.begin(), chain.begin() + 26)).checkpoint == 25);
  CHECK(model.dispatched(std::vector(chain.begin(), chain.begin() + 24)).checkpoint == 0);
  CHECK(model.dispatched(std::vector(chain.begin(), chain.begin() + 8)).pages == 0);
}

TEST_CASE("cached_tokens takes back deeper checkpoints and makes the boundary observed") {
  chain_maker chains(7);
  residency_index index;
  replica_model model(index, 3, small_options(retention::prompt_end_second_sighting));
  auto longer = chains.fresh_chain(20);
  const std::vector<block_key> first(longer.begin(), longer.begin() + 10);
  model.dispatched(first);
  model.dispatched(longer);
  REQUIRE(lookup(index, longer).checkpoint == 20);

  model.correct(longer, 4);  // the checkpoint at 10 was not there after all
  const auto now = lookup(index, first);
  CHECK(now.pages == 10);
  CHECK(now.checkpoint == 4);
  CHECK(now.checkpoint_from == confidence::observed);
  CHECK(lookup(index, longer).checkpoint == 20);  // the request itself has made this one
  CHECK(lookup(index, longer).checkpoint_from == confidence::predicted);
}

TEST_CASE("generated pages extend what is held, without a checkpoint") {
  chain_maker chains(8);
  residency_index index;
  replica_model model(index, 3, small_options(retention::prompt_end));
  const auto whole = chains.fresh_chain(12);
  model.dispatched(std::span(whole).first(8));
  model.generated(whole);
  CHECK(lookup(index, whole).pages == 12);
  CHECK(lookup(index, whole).checkpoint == 8);
}

TEST_CASE("a clear forgets everything, through the model or through the index") {
  for (const bool through_index : {false, true}) {
    chain_maker chains(9);
    residency_index index;
    replica_model model(index, 3, small_options(retention::prompt_end));
    const auto chain = chains.fresh_chain(12);
    model.dispatched(chain);
    if (through_index) {
      index.clear(3);
    } else {
      model.clear();
    }
    CHECK(lookup(index, chain).pages == 0);
    CHECK(model.used_tokens() == 0);
    CHECK(model.dispatched(chain).pages == 0);
    CHECK(lookup(index, chain).checkpoint == 12);
  }
}

}  // namespace
}  // namespace weir::prefix_index
