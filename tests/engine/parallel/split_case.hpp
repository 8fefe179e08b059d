// A model divided among real processes beside the whole of it on one: the same steps on both, all logits
// compared. What a rank throws ends in its exit code. One thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/parallel/follower.hpp"
#include "engine/parallel/leader.hpp"
#include "engine/runner/model_runner.hpp"
#include "tests/engine/parallel/processes.hpp"

namespace weir::tests::split {

using namespace weir::engine;
namespace fs = std::filesystem;

constexpr std::int32_t k_page_tokens = 16;
constexpr std::int32_t k_pages = 8;
constexpr std::int32_t k_slots = 3;

struct layout {
  backend_kind backend;
  std::int32_t slab_pages, slabs;
};

// Slots of whole models and of parts differ in size, so each has its own carving.
inline layout layout_of(const runner::loaded_model& model, backend_kind backend) {
  const std::int32_t slab_pages =
      runner::layout_of(model.config, runner::numbers_of(backend), k_page_tokens).slab_pages;
  return {backend, slab_pages, k_slots + (2 * k_pages - 1) / slab_pages + 1};
}

inline std::unique_ptr<runner::model_runner> make_part(
    const std::shared_ptr<const runner::loaded_model>& model, const layout& how,
    parallel::communicator* ranks, const parallel::shard& part) {
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
inline std::vector<std::vector<double>> run_steps(runner::model_runner& run, const layout& how,
                                                  std::int32_t vocab) {
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
  // Called by each rank at its end; may be empty.
  std::function<void(int rank)> at_end = {};
};

inline void follow_case(const fs::path& dir, parallel::communicator& ranks, const split_case& one) {
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

inline void lead_case(const fs::path& dir, std::unique_ptr<parallel::communicator> ranks,
                      const split_case& one) {
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

inline void check_case(const fs::path& dir, const split_case& one) {
  INFO(dir << ", " << one.ranks << " ranks, " << (one.split == split_kind::tensor ? "tensor" : "expert")
           << ", " << to_text(one.backend));
  rank_processes processes;
  start_owning_ranks(processes, one.ranks, [&](std::unique_ptr<parallel::communicator> ranks) {
    const int rank = ranks->rank();
    if (rank > 0) {
      follow_case(dir, *ranks, one);
    } else {
      lead_case(dir, std::move(ranks), one);
    }
    if (one.at_end) one.at_end(rank);
  });
  CHECK(processes.wait() == std::vector<int>(static_cast<std::size_t>(one.ranks), 0));
}

}  // namespace weir::tests::split
