// The scheduler's decisions, without a model.
#include "engine/scheduler/scheduler.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace {

using weir::engine::generate_request;
using weir::engine::sequence_id;
using weir::engine::scheduler::limits;
using weir::engine::scheduler::scheduler;
using weir::engine::scheduler::sequence;
using steps = std::vector<std::pair<int, int>>;  // (position, count) of each planned sequence

std::unique_ptr<sequence> make(sequence_id id, int prompt, int max_new) {
  generate_request request;
  request.prompt.assign(static_cast<std::size_t>(prompt), 1);
  request.max_new_tokens = max_new;
  return std::make_unique<sequence>(id, std::move(request), nullptr);
}

steps plan(scheduler& under_test) {
  steps out;
  for (const auto& range : under_test.plan().sequences) out.emplace_back(range.position, range.count);
  return out;
}

// What the worker does, with a fixed token.
void advance(scheduler& under_test) {
  for (sequence* seq : under_test.complete()) {
    seq->tokens.push_back(1);
    if (seq->generated() == seq->max_new_tokens) under_test.remove(seq->id);
  }
}

}  // namespace

TEST_CASE("decode tokens come before prompt chunks, and chunks fill the budget", "[scheduler]") {
  scheduler under_test({.slot_count = 4, .page_count = 100, .page_tokens = 4, .step_tokens_max = 8});
  under_test.add(make(1, 1, 5));
  CHECK(plan(under_test) == steps{{0, 1}});
  advance(under_test);
  under_test.add(make(2, 20, 2));
  under_test.add(make(3, 3, 2));
  CHECK(plan(under_test) == steps{{1, 1}, {0, 7}});
  CHECK(under_test.plan().logit_rows == std::vector<std::int32_t>{0});
  plan(under_test);
  advance(under_test);
  CHECK(plan(under_test) == steps{{2, 1}, {7, 7}});
  advance(under_test);
  CHECK(plan(under_test) == steps{{3, 1}, {14, 6}, {0, 1}});
  CHECK(under_test.plan().logit_rows == std::vector<std::int32_t>{0, 6});
  advance(under_test);
  CHECK(under_test.prompt_tokens() == 1 + 20 + 1);
}

TEST_CASE("admission is first come first served and waits for the longest possible run", "[scheduler]") {
  scheduler under_test({.slot_count = 3, .page_count = 4, .page_tokens = 2, .step_tokens_max = 16});
  under_test.add(make(1, 3, 2));  // 4 positions: 2 pages
  under_test.add(make(2, 4, 2));  // 5 positions: 3 pages, must wait
  under_test.add(make(3, 1, 1));  // would fit, but not past the one before
  under_test.plan();
  CHECK(under_test.running_ids() == std::vector<sequence_id>{1});
  CHECK(under_test.pages().used() == 2);
  advance(under_test);
  under_test.plan();
  advance(under_test);  // finishes 1
  under_test.plan();
  CHECK(under_test.running_ids() == std::vector<sequence_id>{2, 3});
  CHECK(under_test.pages().used() == 4);
  CHECK(under_test.remove(2) != nullptr);
  CHECK(under_test.remove(2) == nullptr);
  CHECK(under_test.remove(3) != nullptr);
  CHECK(under_test.pages().used() == 0);
  CHECK(under_test.slots().used() == 0);
  CHECK_FALSE(under_test.has_work());
  CHECK(under_test.plan().row_count() == 0);
}

TEST_CASE("a sequence that leaves between plan and completion gets no token", "[scheduler]") {
  scheduler under_test({.slot_count = 2, .page_count = 8, .page_tokens = 2, .step_tokens_max = 8});
  under_test.add(make(1, 2, 4));
  under_test.add(make(2, 2, 4));
  under_test.plan();
  under_test.remove(1);
  const auto ready = under_test.complete();
  REQUIRE(ready.size() == 1);
  CHECK(ready[0]->id == 2);
}

TEST_CASE("under random load nothing is lost, shared or starved", "[scheduler]") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    const auto pick = [&random](int low, int high) {
      return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
    };
    const limits config{pick(1, 6), pick(20, 60), pick(1, 7), pick(6, 40)};
    scheduler under_test(config);
    sequence_id next_id = 1;
    std::set<sequence_id> outstanding;
    for (int step = 0; step < 400 || under_test.has_work(); ++step) {
      REQUIRE(step < 20000);
      if (step < 400 && pick(0, 2) == 0) {
        const int positions = pick(1, config.page_count * config.page_tokens);
        const int prompt = pick(1, positions);
        under_test.add(make(next_id, prompt, positions - prompt + 1));
        outstanding.insert(next_id++);
      }
      if (!outstanding.empty() && pick(0, 40) == 0) {
        CHECK(under_test.remove(*outstanding.begin()) != nullptr);
        outstanding.erase(outstanding.begin());
      }
      const auto& work = under_test.plan();
      REQUIRE(work.row_count() <= config.step_tokens_max);
      REQUIRE((work.row_count() > 0) == under_test.has_work());
      std::set<std::int32_t> pages, slots;
      for (std::size_t i = 0; i < work.sequences.size(); ++i) {
        const auto& range = work.sequences[i];
        REQUIRE(slots.insert(range.slot).second);
        const int used = (range.position + range.count - 1) / config.page_tokens + 1;
        for (int p = 0; p < used; ++p) {
          REQUIRE(pages
                      .insert(work.block_table[i * static_cast<std::size_t>(work.table_stride) +
                                               static_cast<std::size_t>(p)])
                      .second);
        }
      }
      for (sequence* seq : under_test.complete()) {
        seq->tokens.push_back(1);
        if (seq->generated() < seq->max_new_tokens) continue;
        outstanding.erase(seq->id);
        under_test.remove(seq->id);
      }
    }
    CHECK(outstanding.empty());
    CHECK(under_test.pages().used() == 0);
    CHECK(under_test.slots().used() == 0);
  }
}
