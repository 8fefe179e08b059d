// The bars of routing, on the published conversation trace and on generated ones. Times are virtual: the same
// figures on any machine.
#include "loadtest/replay/replay.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "loadtest/replay/workload.hpp"

namespace weir::loadtest::replay {
namespace {

const std::vector<trace_request>& conversation() {
  static const std::string file =
      std::string(WEIR_SOURCE_DIR) + "/loadtest/traces/mooncake_conversation.jsonl";
  static const auto trace = read_trace(file);
  REQUIRE(trace);
  return *trace;
}

struct mean_of {
  double ttft_s = 0, p99_s = 0, spread = 0, spread_60s = 0, error = 0, hit = 0;
};

mean_of run_seeds(const std::vector<trace_request>& trace, replay_options options, int seeds = 5) {
  mean_of out;
  for (int i = 0; i < seeds; ++i) {
    options.seed = static_cast<std::uint64_t>(i + 1);
    const auto r = run_replay(trace, options);
    out.ttft_s += r.ttft_mean_s / seeds;
    out.p99_s += r.ttft_p99_s / seeds;
    out.spread += r.load_spread / seeds;
    out.spread_60s += r.load_spread_60s / seeds;
    out.error += r.prediction_error_mean / seeds;
    out.hit += r.hit_rate / seeds;
  }
  return out;
}

replay_options with(policy::policy_kind kind, retention_kind keeps = retention_kind::second_sighting) {
  replay_options out;
  out.how.kind = kind;
  out.knows.cache.keeps = keeps;
  out.sends_hints = keeps == retention_kind::value;
  if (keeps == retention_kind::value) out.knows.source = knowledge::events;
  return out;
}

replay_options dense(policy::policy_kind kind, double pending_weight = 0.5) {
  auto out = with(kind, retention_kind::dense);
  out.count = lengths::blocks;
  out.how.pending_weight = pending_weight;
  return out;
}

TEST_CASE("dense replicas: the published reference simulation's rows") {
  using policy::policy_kind;
  const struct {
    const char* name;
    replay_options options;
    double ttft_s;
  } rows[] = {
      {"random", dense(policy_kind::random), 6.02},
      {"least pending", dense(policy_kind::least_pending), 1.97},
      {"cost a=1", dense(policy_kind::cost, 1), 1.42},
      {"cost a=0.5", dense(policy_kind::cost, 0.5), 1.41},
      {"cost a=0.25", dense(policy_kind::cost, 0.25), 1.45},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    CHECK(run_seeds(conversation(), row.options).ttft_s == Approx(row.ttft_s).epsilon(0.03));
  }
  // One root is common to all prompts: greedy puts them all on one replica.
  CHECK(run_seeds(conversation(), dense(policy_kind::prefix_greedy), 1).ttft_s == Approx(7671).epsilon(0.03));
}

TEST_CASE("dense replicas: balanced") {
  const auto r = run_seeds(conversation(), dense(policy::policy_kind::balanced));
  CHECK(r.ttft_s <= 1.40);
  CHECK(r.p99_s <= 10.7);
  CHECK(r.spread <= 1.1);
  CHECK(r.spread_60s <= 1.8);
}

TEST_CASE("checkpoints: the reference simulation's rows") {
  using policy::policy_kind;
  const auto row = [](retention_kind keeps, reuse_estimate estimate, double pending_weight) {
    auto out = with(policy_kind::cost, keeps);
    out.estimate = estimate;
    out.how.pending_weight = pending_weight;
    // The reference looks at the replicas themselves.
    out.knows.source = knowledge::truth;
    return run_seeds(conversation(), out).ttft_s;
  };
  CHECK(row(retention_kind::dense, reuse_estimate::checkpoint, 1) == Approx(1.38).margin(0.02));
  CHECK(row(retention_kind::second_sighting, reuse_estimate::pages, 1) == Approx(1.62).margin(0.02));
  CHECK(row(retention_kind::second_sighting, reuse_estimate::pages, 0.5) == Approx(1.59).margin(0.02));
  CHECK(row(retention_kind::second_sighting, reuse_estimate::checkpoint, 0.5) == Approx(1.59).margin(0.02));
}

TEST_CASE("replicas whose retention cannot be influenced: balanced, and what it predicts is true") {
  const auto r = run_seeds(conversation(), with(policy::policy_kind::balanced));
  CHECK(r.ttft_s <= 1.57);
  CHECK(r.error <= 0.02);
}

TEST_CASE("replicas that take hints and keep by value: balanced") {
  const auto r = run_seeds(conversation(), with(policy::policy_kind::balanced, retention_kind::value));
  CHECK(r.ttft_s <= 1.54);
  CHECK(r.error <= 0.02);
  // The same without placing bursts together: what retention and hints alone are worth.
  const auto alone = run_seeds(conversation(), with(policy::policy_kind::cost, retention_kind::value));
  CHECK(alone.ttft_s <= 1.54);
}

TEST_CASE("generated traces: never worse than routing by pages alone, and better on the whole") {
  double log_sum = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    const auto trace = make_workload({.seed = seed});
    auto pages = with(policy::policy_kind::cost);
    pages.estimate = reuse_estimate::pages;
    double best_pages_s = 1e9;
    for (const double weight : {0.5, 1.0}) {
      pages.how.pending_weight = weight;
      best_pages_s = std::min(best_pages_s, run_seeds(trace, pages, 2).ttft_s);
    }
    const double ratio = run_seeds(trace, with(policy::policy_kind::balanced), 2).ttft_s / best_pages_s;
    CHECK(ratio <= 1.01);
    log_sum += std::log(ratio);
  }
  CHECK(std::exp(log_sum / 20) <= 0.97);
}

TEST_CASE("the index predicts what looking at the replicas would say, whatever its source") {
  using enum retention_kind;
  for (const auto keeps : {retention_kind::dense, prompt_end, second_sighting}) {
    const auto trace = make_workload({.seed = 3, .duration_s = 300});
    auto options = with(policy::policy_kind::balanced, keeps);
    // Small enough that everything is evicted many times.
    options.knows.cache.capacity_tokens = 300'000;
    for (const auto source : {knowledge::simulated, knowledge::events}) {
      options.knows.source = source;
      CHECK(run_replay(trace, options).prediction_error_mean == 0);
    }
  }
}

TEST_CASE("a capacity believed wrong costs little when too large, more when too small") {
  auto options = dense(policy::policy_kind::cost);
  options.knows.capacity_believed = 2;
  CHECK(run_seeds(conversation(), options, 2).ttft_s <= 1.45);
  options.knows.capacity_believed = 0.5;
  CHECK(run_seeds(conversation(), options, 2).ttft_s <= 1.60);
}

TEST_CASE("the same seed gives the same workload, another one another") {
  const auto a = make_workload({.seed = 5, .duration_s = 60});
  const auto b = make_workload({.seed = 5, .duration_s = 60});
  const auto c = make_workload({.seed = 6, .duration_s = 60});
  REQUIRE(a.size() == b.size());
  CHECK(a.back().blocks == b.back().blocks);
  CHECK(a.front().at_s == b.front().at_s);
  CHECK(a.front().blocks != c.front().blocks);
}

}  // namespace
}  // namespace weir::loadtest::replay
