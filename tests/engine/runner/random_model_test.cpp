// Random checkpoints of the layout against an independent double-precision computation, on both backends.
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <string>

#include "engine/runner/model_runner.hpp"
#include "tests/support/dense_oracle.hpp"
#include "tests/support/random_checkpoint.hpp"

namespace {

namespace runner = weir::engine::runner;
namespace tests = weir::tests;
using weir::engine::backend_kind;

struct outputs {
  double logits_error = 0.0;
  double state_error = 0.0;
};

double gap(double a, double b) {
  return std::isfinite(a) ? std::fabs(a - b) : HUGE_VAL;
}

outputs compare(std::shared_ptr<const runner::loaded_model> model, backend_kind backend,
                const tests::oracle_result& oracle, const std::vector<std::int32_t>& prompt,
                std::mt19937_64& random) {
  runner::runner_config config;
  config.backend = backend;
  config.page_tokens = 1 + static_cast<std::int32_t>(random() % 9);
  const std::int32_t slab_pages =
      runner::layout_of(model->config, runner::numbers_of(backend), config.page_tokens).slab_pages;
  constexpr std::int32_t k_states = 3;
  config.slab_count = k_states + 63 / slab_pages + 1;
  config.compute_threads = 1 + static_cast<int>(random() % 2);
  const auto run = runner::make_runner(std::move(model), config);
  std::vector<std::int32_t> pages(64);
  std::iota(pages.begin(), pages.end(), k_states * slab_pages);
  std::shuffle(pages.begin(), pages.end(), random);
  outputs out;
  std::vector<double> logits(oracle.logits[0].size());
  std::size_t done = 0;
  while (done < prompt.size()) {
    const std::size_t count = std::min<std::size_t>(1 + random() % 12, prompt.size() - done);
    runner::batch work;
    work.reset(64);
    work.append(std::span(prompt).subspan(done, count), static_cast<std::int32_t>(done), 2, pages);
    work.logit_rows.resize(count);
    std::iota(work.logit_rows.begin(), work.logit_rows.end(), 0);
    run->run(work);
    for (std::size_t i = 0; i < count; ++i) {
      run->copy_logits(static_cast<std::int32_t>(i), logits);
      for (std::size_t v = 0; v < logits.size(); ++v) {
        out.logits_error = std::max(out.logits_error, gap(logits[v], oracle.logits[done + i][v]));
      }
    }
    done += count;
  }
  const std::vector<double> norms = run->kda_state_norms(2);
  REQUIRE(norms.size() == oracle.kda_state.size());
  for (std::size_t i = 0; i < norms.size(); ++i) {
    out.state_error = std::max(out.state_error, gap(norms[i], oracle.kda_state[i]));
  }
  return out;
}

}  // namespace

TEST_CASE("random checkpoints agree with an independent computation", "[random_model]") {
  constexpr int k_seeds = 48;
  constexpr double k_reference_tolerance = 1e-9;
  constexpr double k_cpu_tolerance = 3e-5;  // of the largest logit, which is above 20 with tied embeddings
  constexpr double k_state_tolerance = 1e-4;
  // Where two experts' scores are closer than this, float32 may rightly choose the other one.
  constexpr double k_router_margin = 1e-5;
  int close_calls = 0;
  for (std::uint64_t seed = 1; seed <= k_seeds; ++seed) {
    std::mt19937_64 random(seed);
    const tests::checkpoint_spec spec = tests::random_spec(random);
    INFO("seed " << seed << ": " << tests::config_json(spec) << ", shards " << spec.shards);
    const tests::random_checkpoint checkpoint = tests::make_checkpoint(spec, seed);
    const tests::temporary_dir dir;
    tests::write_checkpoint(checkpoint, dir.path());
    const auto model = runner::load_model(dir.path());
    INFO((model ? std::string() : model.error().detail));
    REQUIRE(model);
    std::vector<std::int32_t> prompt;
    for (std::uint64_t i = 5 + random() % 26; i > 0; --i) {
      prompt.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(spec.vocab)));
    }
    const tests::oracle_result oracle = tests::run_oracle(checkpoint, prompt);
    double spread = 0.0;
    for (const double logit : oracle.logits.back()) spread = std::max(spread, std::fabs(logit));
    REQUIRE(spread > 0.1);
    const outputs reference = compare(*model, backend_kind::reference, oracle, prompt, random);
    CHECK(reference.logits_error <= k_reference_tolerance);
    CHECK(reference.state_error <= k_reference_tolerance);
    if (oracle.router_margin < k_router_margin) {
      ++close_calls;
      continue;
    }
    const outputs cpu = compare(*model, backend_kind::cpu, oracle, prompt, random);
    CHECK(cpu.logits_error <= k_cpu_tolerance * std::max(spread, 1.0));
    CHECK(cpu.state_error <= k_state_tolerance);
  }
  CHECK(close_calls <= k_seeds / 8);
}
