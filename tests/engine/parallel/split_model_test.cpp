// Models divided among real processes give the logits of one: by width and by experts, both backends.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "engine/parallel/follower.hpp"
#include "engine/parallel/leader.hpp"
#include "engine/runner/expert_exchange.hpp"
#include "tests/engine/parallel/processes.hpp"
#include "tests/support/random_checkpoint.hpp"

namespace {

using namespace weir::engine;
using namespace weir::tests;
namespace fs = std::filesystem;

constexpr std::int32_t k_page_tokens = 16;
constexpr std::int32_t k_pages = 8;
constexpr std::int32_t k_slots = 3;

struct layout {
  backend_kind backend;
  std::int32_t slab_pages, slabs;
};

// Slots of whole models and of parts differ in size, so each has its own carving.
layout layout_of(const runner::loaded_model& model, backend_kind backend) {
  const std::int32_t slab_pages =
      runner::layout_of(model.config, runner::numbers_of(backend), k_page_tokens).slab_pages;
  return {backend, slab_pages, k_slots + (2 * k_pages - 1) / slab_pages + 1};
}

std::unique_ptr<runner::model_runner> make_part(const std::shared_ptr<const runner::loaded_model>& model,
                                                const layout& how, parallel::communicator* ranks,
                                                const parallel::shard& part) {
  runner::runner_config config;
  config.backend = how.backend;
  config.page_tokens = k_page_tokens;
  config.slab_count = how.slabs;
  config.ranks = ranks;
  config.part = part;
  return runner::make_runner(model, config);
}

// Two sequences, the second one's prompt in chunks beside the first one's decode; then copies of both kinds
// and a step on what was copied. All logits, and a state's norms.
std::vector<std::vector<double>> run_steps(runner::model_runner& run, const layout& how, std::int32_t vocab) {
  std::mt19937_64 random(5);
  std::vector<std::vector<double>> out;
  std::vector<std::int32_t> pages[2];
  for (auto& of : pages) of.resize(k_pages);
  std::iota(pages[0].begin(), pages[0].end(), k_slots * how.slab_pages);
  std::iota(pages[1].begin(), pages[1].end(), k_slots * how.slab_pages + k_pages);
  std::int32_t position[2] = {};
  runner::batch work;
  const auto add = [&](int sequence, std::int32_t count, std::int32_t slot) {
    std::vector<std::int32_t> tokens;
    for (std::int32_t i = 0; i < count; ++i) {
      tokens.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab)));
    }
    work.append(tokens, position[sequence], slot, pages[sequence]);
    position[sequence] += count;
  };
  const auto go = [&] {
    work.logit_rows.resize(work.tokens.size());
    std::iota(work.logit_rows.begin(), work.logit_rows.end(), 0);
    run.run(work);
    for (std::int32_t row = 0; row < work.row_count(); ++row) {
      out.emplace_back(static_cast<std::size_t>(vocab));
      run.copy_logits(row, out.back());
    }
    work.reset(k_pages);
  };
  work.reset(k_pages);
  add(0, 37, 0);
  go();
  for (const std::int32_t count : {1, 5, 16, 2}) {
    add(0, 1, 0);
    add(1, count, 1);
    go();
  }
  const std::int32_t from = pages[1][1];
  const std::int32_t to = pages[1].back();
  const kv::memory_op ops[] = {{kv::memory_op::kind::copy_state, 1, 2},
                               {kv::memory_op::kind::copy_page, from, to}};
  run.copy(ops);
  pages[1][1] = to;
  add(1, 1, 2);
  go();
  out.push_back(run.kda_state_norms(2));
  return out;
}

struct split_case {
  int ranks;
  split_kind split;
  backend_kind backend;
  double tolerance;
};

void follow_case(const fs::path& dir, parallel::communicator& ranks, const split_case& one) {
  const parallel::shard part{ranks.rank(), ranks.size(), one.split};
  const auto model = runner::load_model(dir, {.part = part});
  expect(model.has_value(), model ? "" : model.error().detail);
  const layout how = layout_of(**model, one.backend);
  const auto own = make_part(*model, how, &ranks, part);
  parallel::step_limits limits{
      (*model)->config.vocab_size, how.slabs, how.slab_pages, k_page_tokens, 4096, 64, 2};
  const auto followed = parallel::follow(ranks, *own, limits);
  expect(followed.has_value(), followed ? "" : followed.error().detail);
}

void lead_case(const fs::path& dir, std::unique_ptr<parallel::communicator> ranks, const split_case& one) {
  const parallel::shard part{0, ranks->size(), one.split};
  const auto whole = runner::load_model(dir);
  const auto model = runner::load_model(dir, {.part = part});
  expect(whole && model, model ? "" : model.error().detail);
  expect((*model)->weights.weight_bytes < (*whole)->weights.weight_bytes, "a part is as large as the whole");
  const layout alone_how = layout_of(**whole, one.backend);
  const auto alone = make_part(*whole, alone_how, nullptr, {});
  const auto expected = run_steps(*alone, alone_how, (*whole)->config.vocab_size);
  const layout how = layout_of(**model, one.backend);
  auto own = make_part(*model, how, ranks.get(), part);
  const auto leader = parallel::make_leader(std::move(ranks), std::move(own), k_page_tokens);
  const auto got = run_steps(*leader, how, (*model)->config.vocab_size);
  expect(got.size() == expected.size(), "other steps");
  double worst = 0.0, largest = 1.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    for (std::size_t v = 0; v < got[i].size(); ++v) {
      worst = std::max(worst, std::isfinite(got[i][v]) ? std::fabs(got[i][v] - expected[i][v]) : HUGE_VAL);
      largest = std::max(largest, std::fabs(expected[i][v]));
    }
  }
  expect(worst <= one.tolerance * largest,
         "an error of " + std::to_string(worst * 1e9) + "e-9 beside " + std::to_string(largest));
  // A part of a sum rounds otherwise than the whole: what never differs was not computed in parts.
  expect(worst > 0.0 || one.split == split_kind::expert, "the very bits of one rank");
}

void check_case(const fs::path& dir, const split_case& one) {
  INFO(dir << ", " << one.ranks << " ranks, " << (one.split == split_kind::tensor ? "tensor" : "expert")
           << ", " << (one.backend == backend_kind::reference ? "reference" : "cpu"));
  rank_processes processes;
  start_owning_ranks(processes, one.ranks, [&](std::unique_ptr<parallel::communicator> ranks) {
    if (ranks->rank() > 0) return follow_case(dir, *ranks, one);
    lead_case(dir, std::move(ranks), one);
  });
  CHECK(processes.wait() == std::vector<int>(static_cast<std::size_t>(one.ranks), 0));
}

void check_model(const fs::path& dir, const std::vector<int>& tensor, const std::vector<int>& expert,
                 double cpu_tolerance) {
  for (const auto& [counts, split] :
       {std::pair(tensor, split_kind::tensor), std::pair(expert, split_kind::expert)}) {
    for (const int ranks : counts) {
      check_case(dir, {ranks, split, backend_kind::reference, 1e-9});
      check_case(dir, {ranks, split, backend_kind::cpu, cpu_tolerance});
    }
  }
}

const fs::path k_root = WEIR_SOURCE_DIR;

}  // namespace

TEST_CASE("Kimi-Linear's fixture divided gives one rank's logits", "[split]") {
  check_model(k_root / "tests/data/kimi-linear-a", {2, 4}, {2, 4}, 1e-4);
}

TEST_CASE("Kimi K3's fixture divided gives one rank's logits", "[split]") {
  // Its experts' 64 columns are two groups.
  check_model(k_root / "tests/data/kimi-k3-a", {2}, {2, 4}, 5e-4);
}

TEST_CASE("the bundled model divided gives one rank's logits", "[split]") {
  check_model(k_root / "configs/models/weir-tiny", {2}, {2}, 1e-4);
}

TEST_CASE("models that three and four ranks divide give one rank's logits", "[split]") {
  checkpoint_spec spec = k3_spec();
  spec.mla_heads = spec.kda_heads = 12;
  spec.dense_width = 96;
  spec.expert_width = 384;
  spec.experts = 12;
  spec.vocab = 67;
  const temporary_dir dir;
  write_checkpoint(make_checkpoint(spec, 3), dir.path());
  check_model(dir.path(), {3, 4}, {3, 4}, 5e-4);
}

TEST_CASE("every pick goes to its expert's rank and comes back to its place", "[split]") {
  std::mt19937_64 random(11);
  for (const int ranks : {1, 2, 3, 5}) {
    for (const std::int32_t rows : {0, 1, 2, 7, 40}) {
      constexpr std::int32_t k_chosen = 3, k_experts = 15;
      std::vector<std::int32_t> ids;
      for (std::int32_t i = 0; i < rows * k_chosen; ++i)
        ids.push_back(static_cast<std::int32_t>(random() % k_experts));
      std::vector<runner::exchange_plan> plans;
      for (int rank = 0; rank < ranks; ++rank) {
        plans.push_back(runner::plan_exchange(ids, k_chosen, k_experts, {rank, ranks, split_kind::expert}));
      }
      for (int from = 0; from < ranks; ++from) {
        const parallel::shard part{from, ranks, split_kind::expert};
        const runner::exchange_plan& plan = plans[static_cast<std::size_t>(from)];
        const std::int32_t first = part.begin_of(rows);
        const std::int32_t own = part.end_of(rows) - first;
        REQUIRE(plan.places.size() == static_cast<std::size_t>(own * k_chosen));
        for (std::int32_t i = 0; i < own * k_chosen; ++i) {
          const std::int32_t pick = first * k_chosen + i;
          // Where the result comes back is where the row went out.
          std::int64_t at = plan.places[static_cast<std::size_t>(i % k_chosen * own + i / k_chosen)];
          REQUIRE(plan.sent_rows[static_cast<std::size_t>(at)] == i / k_chosen);
          std::size_t to = 0;
          while (at >= plan.sent[to]) at -= plan.sent[to++];
          const runner::exchange_plan& there = plans[to];
          REQUIRE(there.received[static_cast<std::size_t>(from)] == plan.sent[to]);
          for (int before = 0; before < from; ++before)
            at += there.received[static_cast<std::size_t>(before)];
          REQUIRE(there.picks[static_cast<std::size_t>(at)] == pick);
          const parallel::shard home{static_cast<int>(to), ranks, split_kind::expert};
          REQUIRE(there.experts[static_cast<std::size_t>(at)] + home.begin_of(k_experts) ==
                  ids[static_cast<std::size_t>(pick)]);
        }
      }
    }
  }
}
