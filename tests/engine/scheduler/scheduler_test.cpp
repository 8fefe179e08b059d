// The scheduler's decisions, without a model.
#include "engine/scheduler/scheduler.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

using weir::engine::generate_request;
using weir::engine::sequence_id;
using weir::engine::scheduler::limits;
using weir::engine::scheduler::scheduler;
using weir::engine::scheduler::sequence;
using steps = std::vector<std::pair<int, int>>;  // (position, count) of each planned sequence

// A prompt that no other id begins with.
std::unique_ptr<sequence> make(sequence_id id, int prompt, int max_new, const std::string& scope = "") {
  generate_request request;
  request.prompt.assign(static_cast<std::size_t>(prompt), 1);
  request.prompt[0] = static_cast<std::int32_t>(id) + 100;
  request.max_new_tokens = max_new;
  request.scope = scope;
  return std::make_unique<sequence>(id, std::move(request), nullptr);
}

limits make_limits(std::int32_t sequences, std::int32_t slabs, std::int32_t slab_pages,
                   std::int32_t page_tokens, std::int32_t step_tokens) {
  limits out;
  out.sequences_max = sequences;
  out.step_tokens_max = step_tokens;
  out.memory.pool = {slabs, slab_pages};
  out.memory.page_tokens = page_tokens;
  out.memory.cache = false;
  return out;
}

steps plan(scheduler& under_test) {
  steps out;
  for (const auto& range : under_test.plan().sequences) out.emplace_back(range.position, range.count);
  return out;
}

// What the worker does, with a fixed token. How many sequences got one.
std::size_t advance(scheduler& under_test) {
  const std::vector<sequence*> ready = under_test.complete();
  for (sequence* seq : ready) {
    seq->tokens.push_back(1);
    if (seq->generated() == seq->max_new_tokens) under_test.remove(seq->id);
  }
  return ready.size();
}

}  // namespace

TEST_CASE("decode tokens come before prompt chunks, and chunks fill the budget", "[scheduler]") {
  scheduler under_test(make_limits(4, 100, 1, 4, 8));
  under_test.add(make(1, 1, 5));
  CHECK(plan(under_test) == steps{{0, 1}});
  advance(under_test);
  under_test.add(make(2, 20, 2));
  under_test.add(make(3, 3, 2));
  CHECK(plan(under_test) == steps{{1, 1}, {0, 7}});
  CHECK(advance(under_test) == 1);  // of the prompts none is done
  CHECK(plan(under_test) == steps{{2, 1}, {7, 4}, {0, 3}});
  CHECK(advance(under_test) == 2);
  CHECK(plan(under_test) == steps{{3, 1}, {3, 1}, {11, 6}});
  advance(under_test);
  CHECK(plan(under_test) == steps{{4, 1}, {17, 3}});
  CHECK(advance(under_test) == 2);
  CHECK(under_test.counters().prompt_tokens == 1 + 20 + 3);
}

TEST_CASE("chunks end at multiples of the alignment unless the budget is smaller", "[scheduler]") {
  limits config = make_limits(4, 100, 1, 4, 11);
  config.chunk_align_tokens = 4;
  scheduler under_test(config);
  under_test.add(make(1, 30, 1));
  CHECK(plan(under_test) == steps{{0, 8}});
  advance(under_test);
  CHECK(plan(under_test) == steps{{8, 8}});
  for (sequence_id id = 2; id <= 4; ++id) under_test.add(make(id, 1, 30));
  advance(under_test);
  CHECK(plan(under_test) == steps{{0, 1}, {0, 1}, {0, 1}, {16, 8}});
  advance(under_test);
  CHECK(plan(under_test) == steps{{1, 1}, {1, 1}, {1, 1}, {24, 6}});

  config.step_tokens_max = 5;
  scheduler narrow(config);
  narrow.add(make(1, 1, 30));
  narrow.add(make(2, 1, 30));
  plan(narrow);
  advance(narrow);
  narrow.add(make(3, 9, 1));
  CHECK(plan(narrow) == steps{{1, 1}, {1, 1}, {0, 3}});
  advance(narrow);
  CHECK(plan(narrow) == steps{{2, 1}, {2, 1}, {3, 1}});  // back to the grid
  advance(narrow);
  CHECK(plan(narrow) == steps{{3, 1}, {3, 1}, {4, 3}});
}

TEST_CASE("a tenant's first one that does not fit yet is not passed by", "[scheduler]") {
  scheduler under_test(make_limits(3, 8, 1, 2, 16));
  under_test.add(make(1, 5, 1));  // a state and 3 pages
  under_test.add(make(2, 8, 1));  // a state and 4 pages: must wait, with a page for each to spare
  under_test.add(make(3, 1, 1));  // would fit
  under_test.plan();
  CHECK(under_test.running_ids() == std::vector<sequence_id>{1});
  CHECK(under_test.memory().pool().free_pages() == 4);
  advance(under_test);  // finishes 1
  under_test.plan();
  CHECK(under_test.running_ids() == std::vector<sequence_id>{2});
  CHECK(under_test.remove(2) != nullptr);
  CHECK(under_test.remove(2) == nullptr);
  CHECK(under_test.remove(3) != nullptr);
  CHECK(under_test.memory().pool().free_pages() == 8);
  CHECK_FALSE(under_test.has_work());
  CHECK(under_test.plan().row_count() == 0);
}

TEST_CASE("the youngest loses its memory when there is none, and is computed again", "[scheduler]") {
  scheduler under_test(make_limits(3, 12, 1, 2, 16));
  under_test.add(make(1, 3, 11));
  under_test.add(make(2, 3, 11));
  int steps_run = 0;
  while (under_test.running_count() == 2 || steps_run == 0) {
    plan(under_test);
    advance(under_test);
    REQUIRE(++steps_run < 30);
  }
  CHECK(under_test.running_ids() == std::vector<sequence_id>{1});
  CHECK(under_test.waiting_ids() == std::vector<sequence_id>{2});
  CHECK(under_test.counters().preemptions == 1);
  CHECK(under_test.counters().recomputed_tokens == 0);
  std::set<int> restarted;
  while (under_test.has_work()) {
    for (const auto& [position, count] : plan(under_test)) {
      if (position == 0) restarted.insert(count);
    }
    advance(under_test);
    REQUIRE(++steps_run < 60);
  }
  REQUIRE(restarted.size() == 1);
  CHECK(*restarted.begin() > 3);  // the prompt and what was generated, at once
  CHECK(under_test.counters().recomputed_tokens == static_cast<std::uint64_t>(*restarted.begin() - 1));
  CHECK(under_test.counters().prompt_tokens == 6);
  CHECK(under_test.memory().pool().free_pages() == 12);
}

TEST_CASE("tenants share admission and the prompt budget, whatever they ask for", "[scheduler]") {
  scheduler under_test(make_limits(2, 2000, 1, 4, 200));
  for (sequence_id id = 1; id <= 40; ++id) under_test.add(make(id, 400, 1, "heavy"));
  for (sequence_id id = 41; id <= 44; ++id) under_test.add(make(id, 400, 1, "light"));
  sequence_id light_left = 4;
  for (int step = 0; light_left > 0; ++step) {
    REQUIRE(step < 20);  // 8 prompts of 400 in equal shares
    under_test.plan();
    for (sequence* seq : under_test.complete()) {
      seq->tokens.push_back(1);
      light_left -= seq->scope == "light" ? 1 : 0;
      under_test.remove(seq->id);
    }
  }

  scheduler prompts(make_limits(8, 2000, 1, 4, 256));
  prompts.add(make(1, 3000, 1, "long"));
  prompts.plan();
  prompts.complete();
  prompts.add(make(2, 128, 1, "short"));
  CHECK(plan(prompts) == steps{{256, 128}, {0, 128}});
}

TEST_CASE("a short prompt does not wait for long ones of its own tenant, nor they for ever", "[scheduler]") {
  scheduler under_test(make_limits(64, 20000, 1, 4, 256));
  for (sequence_id id = 1; id <= 4; ++id) under_test.add(make(id, 4000, 1));
  under_test.plan();
  under_test.complete();
  sequence_id next = 5;
  int short_done = 0;
  for (int step = 0;; ++step) {
    // Short ones without end: they get half of every step, the oldest the other half.
    under_test.add(make(next++, 200, 1));
    REQUIRE(step < 40);
    under_test.plan();
    bool oldest_done = false;
    for (sequence* seq : under_test.complete()) {
      seq->tokens.push_back(1);
      oldest_done = oldest_done || seq->id == 1;
      if (seq->id > 4) ++short_done;
      if (seq->id != 1) under_test.remove(seq->id);
    }
    if (oldest_done) break;
    if (step == 4) CHECK(short_done >= 2);
  }
  CHECK(short_done >= 15);
}

TEST_CASE("a burst of siblings computes what they share once", "[scheduler]") {
  limits config = make_limits(8, 200, 2, 4, 16);
  config.memory.cache = true;
  config.memory.unit_tokens = 4;
  scheduler under_test(config);
  // The last `own` tokens are its own.
  const auto sibling = [](sequence_id id, std::size_t own, const std::string& scope) {
    auto seq = make(7, 40, 2, scope);
    seq->id = id;
    std::fill(seq->tokens.end() - static_cast<std::ptrdiff_t>(own), seq->tokens.end(),
              500 + static_cast<std::int32_t>(id));
    return seq;
  };
  under_test.add(sibling(1, 6, "a"));
  under_test.add(sibling(2, 6, "a"));   // shares 34 of 40 tokens: 32 in whole units
  under_test.add(sibling(3, 35, "a"));  // behind it; shares 4, too few to wait for
  under_test.add(sibling(4, 6, "b"));   // shares nothing, for its scope
  under_test.plan();
  CHECK(under_test.running_ids() == std::vector<sequence_id>{1, 4});
  for (int step = 0; under_test.has_work(); ++step) {
    REQUIRE(step < 60);
    REQUIRE(under_test.plan().row_count() > 0);
    advance(under_test);
  }
  CHECK(under_test.counters().prompt_tokens == 40 + 8 + 40 + 40);
  CHECK(under_test.memory().cached().counters().hit_tokens[1] == 32);

  under_test.add(sibling(5, 0, "c"));
  under_test.plan();
  under_test.add(sibling(6, 0, "c"));
  under_test.plan();
  CHECK(under_test.running_ids() == std::vector<sequence_id>{5});
  under_test.remove(5);  // nobody is left to wait for
  under_test.plan();
  CHECK(under_test.running_ids() == std::vector<sequence_id>{6});
}

TEST_CASE("a step ends where a state is to be kept, and a copy of it is made", "[scheduler]") {
  limits config = make_limits(2, 40, 2, 4, 64);
  config.memory.cache = true;
  config.memory.unit_tokens = 4;
  scheduler under_test(config);
  auto first = make(1, 22, 2);
  first->hints = {9, 0, -5, 1000};
  under_test.add(std::move(first));
  CHECK(plan(under_test) == steps{{0, 8}});
  CHECK(under_test.take_ops().empty());
  const std::int32_t slab = under_test.plan().sequences[0].slot;
  advance(under_test);
  CHECK(plan(under_test) == steps{{8, 12}});
  const auto ops = under_test.take_ops();
  REQUIRE(ops.size() == 1);
  CHECK(ops[0].what == weir::engine::kv::memory_op::kind::copy_state);
  CHECK(ops[0].from == slab);
  advance(under_test);
  CHECK(plan(under_test) == steps{{20, 2}});
  while (under_test.has_work()) {
    plan(under_test);
    advance(under_test);
  }
  under_test.take_ops();
  auto second = make(1, 22, 2);
  second->tokens[21] = 50;
  under_test.add(std::move(second));
  CHECK(plan(under_test) == steps{{20, 2}});
  CHECK(under_test.take_ops().size() == 1);  // the boundary fills its pages
  CHECK(under_test.memory().cached().counters().hit_tokens[0] == 20);
}

TEST_CASE("a sequence that leaves between plan and completion gets no token", "[scheduler]") {
  scheduler under_test(make_limits(2, 10, 1, 2, 8));
  under_test.add(make(1, 2, 4));
  under_test.add(make(2, 2, 4));
  under_test.plan();
  under_test.remove(1);
  const auto ready = under_test.complete();
  REQUIRE(ready.size() == 1);
  CHECK(ready[0]->id == 2);
}

TEST_CASE("under random load nothing is lost, shared or starved", "[scheduler]") {
  std::uint64_t preemptions = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    const auto pick = [&random](int low, int high) {
      return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
    };
    limits config = make_limits(pick(1, 6), pick(4, 20), pick(1, 9), pick(1, 7), pick(6, 40));
    config.memory.cache = pick(0, 1) == 1;
    config.memory.unit_tokens = pick(1, 9);
    const int page_tokens = config.memory.page_tokens;
    const int longest = (config.memory.pool.slab_count - 1) * config.memory.pool.slab_pages * page_tokens;
    scheduler under_test(config);
    sequence_id next_id = 1;
    std::set<sequence_id> outstanding;
    for (int step = 0; step < 400 || under_test.has_work(); ++step) {
      REQUIRE(step < 20000);
      if (step < 400 && pick(0, 2) == 0) {
        const int positions = pick(1, longest);
        const int prompt = pick(1, positions);
        under_test.add(make(next_id, prompt, positions - prompt + 1, std::string(random() % 3, 't')));
        outstanding.insert(next_id++);
      }
      if (!outstanding.empty() && pick(0, 40) == 0) {
        CHECK(under_test.remove(*outstanding.begin()) != nullptr);
        outstanding.erase(outstanding.begin());
      }
      const auto& work = under_test.plan();
      REQUIRE(work.row_count() <= config.step_tokens_max);
      REQUIRE((work.row_count() > 0) == under_test.has_work());
      // Prompts share no prefix, so no page belongs to two sequences.
      std::set<std::int32_t> places, slots;
      for (const auto& range : work.sequences) slots.insert(range.slot);
      REQUIRE(slots.size() == work.sequences.size());
      for (std::size_t i = 0; i < work.sequences.size(); ++i) {
        const auto& range = work.sequences[i];
        const int used = (range.position + range.count - 1) / page_tokens + 1;
        for (int p = 0; p < used; ++p) {
          const auto place =
              work.block_table[i * static_cast<std::size_t>(work.table_stride) + static_cast<std::size_t>(p)];
          REQUIRE(places.insert(place).second);
          REQUIRE_FALSE(slots.contains(place / config.memory.pool.slab_pages));
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
    const auto& memory = under_test.memory();
    CHECK(memory.pool().used_pages() == memory.pool().cached_pages());
    CHECK(memory.pool().states() == memory.cached().checkpoint_count());
    preemptions += under_test.counters().preemptions;
  }
  CHECK(preemptions > 10);
}
