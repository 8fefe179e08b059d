// What of a prompt the cache gives, against a plain list of what was kept and seen; and who may write where.
#include "engine/scheduler/sequence_memory.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace weir::engine;
using scheduler::memory_config;
using scheduler::sequence;
using scheduler::sequence_memory;
using tokens_t = std::vector<std::int32_t>;

sequence make(const tokens_t& prompt, const std::string& scope = {}, tokens_t hints = {}) {
  generate_request request;
  request.prompt = prompt;
  request.scope = scope;
  request.checkpoint_at = std::move(hints);
  return {0, std::move(request), nullptr};
}

// As the scheduler does, one chunk after another.
void compute_all(sequence_memory& memory, sequence& seq) {
  while (seq.pending() > 0) {
    seq.computed = std::min(seq.token_count(), memory.next_cut(seq));
    memory.keep(seq);
  }
}

// Every whole unit that was part of a prompt, and every prefix whose state was kept; nothing is ever evicted.
class plain_list final {
 public:
  explicit plain_list(std::int32_t unit, std::int32_t spacing) : unit_(unit), spacing_(spacing) {}

  std::int32_t expect(const std::string& scope, const tokens_t& prompt, const tokens_t& hints) {
    const auto size = static_cast<std::int32_t>(prompt.size());
    const auto first = [&](std::int32_t count) {
      return std::pair{scope, tokens_t(prompt.begin(), prompt.begin() + count)};
    };
    std::int32_t reusable = 0;
    std::int32_t known = 0;
    for (std::int32_t at = unit_; at <= size - 1; at += unit_) {
      if (kept_.contains(first(at))) reusable = at;
      if (seen_.contains(first(at))) known = at;
    }
    std::set<std::int32_t> keep{known, size / unit_ * unit_};
    for (const std::int32_t hint : hints) {
      if (hint > 0 && hint <= size) keep.insert(hint / unit_ * unit_);
    }
    for (std::int32_t at = spacing_; spacing_ > 0 && at <= size; at += spacing_) keep.insert(at);
    for (const std::int32_t at : keep) {
      if (at > reusable) kept_.insert(first(at));
    }
    for (std::int32_t at = unit_; at <= size; at += unit_) seen_.insert(first(at));
    return reusable;
  }

 private:
  std::int32_t unit_;
  std::int32_t spacing_;
  std::set<std::pair<std::string, tokens_t>> kept_;
  std::set<std::pair<std::string, tokens_t>> seen_;
};

}  // namespace

TEST_CASE("forks at every offset start where the rules say", "[sequence_memory]") {
  for (const std::int32_t unit : {1, 3, 4, 8}) {
    for (const std::int32_t page_tokens : {1, 3, 4, 16}) {
      for (const std::int32_t spacing : {0, 2}) {
        INFO("unit " << unit << ", pages of " << page_tokens << ", spacing " << spacing << " units");
        memory_config config;
        config.pool = {4000, 2};
        config.page_tokens = page_tokens;
        config.unit_tokens = unit;
        config.spacing_tokens = spacing * unit;
        sequence_memory memory(config);
        plain_list expected(unit, spacing * unit);
        tokens_t base(25);
        for (std::size_t i = 0; i < base.size(); ++i) base[i] = static_cast<std::int32_t>(i);
        std::vector<tokens_t> prompts{base};
        for (std::int32_t offset = 0; offset <= 25; ++offset) {
          for (const std::int32_t more : {0, 1, 5}) {
            tokens_t fork(base.begin(), base.begin() + offset);
            for (std::int32_t i = 0; i < more; ++i) fork.push_back(100 + offset);
            if (!fork.empty()) prompts.push_back(fork);
          }
        }
        const std::vector<tokens_t> again = prompts;
        prompts.insert(prompts.end(), again.begin(), again.end());
        for (const tokens_t& prompt : prompts) {
          INFO("prompt of " << prompt.size() << " tokens ending with " << prompt.back());
          sequence seq = make(prompt);
          REQUIRE(memory.admit(seq, 0));
          REQUIRE(seq.computed == expected.expect("", prompt, {}));
          REQUIRE(seq.cached == seq.computed);
          compute_all(memory, seq);
          memory.release(seq);
        }
      }
    }
  }
}

TEST_CASE("random prompts, scopes and hints start where the rules say", "[sequence_memory]") {
  std::uint64_t cached = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    const auto pick = [&random](std::int32_t low, std::int32_t high) {
      return low + static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(high - low + 1));
    };
    memory_config config;
    config.pool = {3000, 4};
    config.page_tokens = pick(1, 9);
    config.unit_tokens = pick(1, 6);
    config.spacing_tokens = pick(0, 2) * config.unit_tokens;
    config.hash_seed = seed;
    sequence_memory memory(config);
    plain_list expected(config.unit_tokens, config.spacing_tokens);
    for (int step = 0; step < 120; ++step) {
      tokens_t prompt(static_cast<std::size_t>(pick(1, 30)));
      for (std::int32_t& token : prompt) token = pick(0, 9) == 0 ? pick(0, 1) : 0;
      tokens_t hints;
      for (int i = pick(0, 3); i > 0; --i) hints.push_back(pick(-5, 40));
      const std::string scope(static_cast<std::size_t>(pick(0, 2)), 's');
      sequence seq = make(prompt, scope, hints);
      REQUIRE(memory.admit(seq, 0));
      REQUIRE(seq.computed == expected.expect(scope, prompt, hints));
      cached += static_cast<std::uint64_t>(seq.computed);
      compute_all(memory, seq);
      memory.release(seq);
    }
    REQUIRE(memory.pool().used_pages() == memory.pool().cached_pages());
  }
  CHECK(cached > 10000);
}

TEST_CASE("a page that the boundary fills is shared, one that it does not is copied", "[sequence_memory]") {
  memory_config config;
  config.pool = {40, 2};
  config.page_tokens = 4;
  config.unit_tokens = 2;
  sequence_memory memory(config);
  const tokens_t prompt{1, 2, 3, 4, 5, 6, 7};
  sequence first = make(prompt);
  REQUIRE(memory.admit(first, 0));
  compute_all(memory, first);  // kept after 6
  const auto slot = first.slot;
  REQUIRE(memory.take_ops().size() == 1);

  sequence second = make({1, 2, 3, 4, 5, 6, 9, 9, 9});
  REQUIRE(memory.admit(second, 0));
  CHECK(second.computed == 6);
  CHECK(second.slot != slot);
  REQUIRE(second.pages.size() == 3);
  CHECK(second.pages[0] == first.pages[0]);
  CHECK(second.pages[1] != first.pages[1]);
  const auto ops = memory.take_ops();
  REQUIRE(ops.size() == 2);
  CHECK(ops[0].what == kv::memory_op::kind::copy_state);
  CHECK(ops[0].to == second.slot);
  CHECK(ops[1] == kv::memory_op{kv::memory_op::kind::copy_page, memory.pool().place(first.pages[1]),
                                memory.pool().place(second.pages[1])});
  memory.release(first);
  memory.release(second);
}

TEST_CASE("admission takes from the cache what it needs, and nothing if that is not enough",
          "[sequence_memory]") {
  memory_config config;
  config.pool = {6, 2};  // 12 pages
  config.page_tokens = 2;
  config.unit_tokens = 2;
  sequence_memory memory(config);
  sequence first = make(tokens_t(6, 1));  // a state and 3 pages
  REQUIRE(memory.admit(first, 0));
  compute_all(memory, first);              // and a checkpoint
  sequence large = make(tokens_t(14, 2));  // a state and 7 pages
  CHECK_FALSE(memory.admit(large, 0));
  CHECK(large.slot == -1);
  CHECK(memory.cached().checkpoint_count() == 1);
  CHECK(memory.pool().free_pages() == 5);
  memory.release(first);
  CHECK_FALSE(memory.admit(large, 4));
  CHECK(memory.cached().checkpoint_count() == 1);
  REQUIRE(memory.admit(large, 3));
  CHECK(memory.cached().checkpoint_count() == 0);
  CHECK(memory.pool().free_pages() == 3);
  memory.release(large);
}

TEST_CASE("a sequence that fills the pool runs although starting from the cache would take a page more",
          "[sequence_memory]") {
  memory_config config;
  config.pool = {3, 2};  // 6 pages: a state, and 4
  config.page_tokens = 4;
  config.unit_tokens = 2;
  sequence_memory memory(config);
  sequence first = make(tokens_t(6, 1));
  REQUIRE(memory.fits(16));
  CHECK_FALSE(memory.fits(17));
  REQUIRE(memory.admit(first, 0));
  compute_all(memory, first);
  memory.release(first);
  REQUIRE(memory.cached().checkpoint_count() == 1);
  sequence longest = make(tokens_t(16, 1));
  REQUIRE(memory.admit(longest, 0));
  CHECK(longest.computed == 0);
  CHECK(memory.pool().free_pages() == 0);
  memory.release(longest);
}
