// Models divided among real processes give the logits of one: by width and by experts, both backends.
#include <numeric>
#include <random>

#include "engine/runner/expert_exchange.hpp"
#include "tests/engine/parallel/split_case.hpp"
#include "tests/support/random_checkpoint.hpp"

namespace {

using namespace weir::engine;
using namespace weir::tests;
using namespace weir::tests::split;

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
