// A sequence's logits are bit for bit the same alone and in any company, whatever the chunks and step budgets
// were.
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <vector>

#include "engine/runner/model_runner.hpp"
#include "engine/scheduler/scheduler.hpp"
#include "tests/support/random_checkpoint.hpp"

namespace {

using namespace weir::engine;
namespace tests = weir::tests;

struct job {
  std::vector<std::int32_t> prompt;
  int max_new = 1;
};

using trace = std::vector<std::vector<double>>;  // logits of each generated token

generate_request request_of(const job& job) {
  generate_request request;
  request.prompt = job.prompt;
  request.max_new_tokens = job.max_new;
  request.sampling.temperature = 0.8F;
  request.sampling.seed = static_cast<std::uint64_t>(job.prompt[0]);
  return request;
}

struct schedule {
  std::int32_t sequences_max;
  std::int32_t page_count;  // besides the states
  std::int32_t page_tokens;
  std::int32_t step_tokens_max;
  int threads;
  std::uint64_t arrival_seed;  // 0: all at once
};

std::vector<trace> run(const std::shared_ptr<const runner::loaded_model>& model, backend_kind backend,
                       const std::vector<job>& jobs, const schedule& how) {
  runner::runner_config config;
  config.backend = backend;
  scheduler::limits limits;
  limits.sequences_max = how.sequences_max;
  limits.step_tokens_max = how.step_tokens_max;
  limits.memory.page_tokens = how.page_tokens;
  limits.memory.pool.slab_pages =
      runner::layout_of(model->config, runner::numbers_of(backend), how.page_tokens).slab_pages;
  limits.memory.pool.slab_count = how.sequences_max + how.page_count / limits.memory.pool.slab_pages + 1;
  config.slab_count = limits.memory.pool.slab_count;
  config.page_tokens = how.page_tokens;
  config.compute_threads = how.threads;
  const auto run = runner::make_runner(model, config);
  scheduler::scheduler plan(limits);
  std::mt19937_64 random(how.arrival_seed);
  std::vector<trace> out(jobs.size());
  std::vector<double> logits(static_cast<std::size_t>(model->config.vocab_size));
  std::size_t next = 0;
  while (next < jobs.size() || plan.has_work()) {
    while (next < jobs.size() && (!plan.has_work() || how.arrival_seed == 0 || random() % 3 == 0)) {
      plan.add(std::make_unique<scheduler::sequence>(next, request_of(jobs[next]), nullptr));
      ++next;
    }
    const runner::batch& work = plan.plan();
    run->copy(plan.take_ops());
    run->run(work);
    std::int32_t index = 0;
    for (scheduler::sequence* seq : plan.complete()) {
      run->copy_logits(index++, logits);
      out[seq->id].push_back(logits);
      seq->tokens.push_back(seq->sampler.next(logits).token);
      if (seq->generated() == seq->max_new_tokens) plan.remove(seq->id);
    }
  }
  return out;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

std::vector<job> random_jobs(std::mt19937_64& random, int vocab) {
  std::vector<job> jobs(8);
  for (job& one : jobs) {
    for (std::uint64_t i = 1 + random() % 40; i > 0; --i) {
      one.prompt.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab)));
    }
    one.max_new = 1 + static_cast<int>(random() % 12);
  }
  return jobs;
}

void check_schedules(const std::shared_ptr<const runner::loaded_model>& model, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<job> jobs = random_jobs(random, model->config.vocab_size);
  for (const backend_kind backend : {backend_kind::reference, backend_kind::cpu}) {
    const bool reference = backend == backend_kind::reference;
    std::vector<trace> alone;
    for (const job& one : jobs) alone.push_back(run(model, backend, {one}, {1, 60, 4, 512, 1, 0})[0]);
    // Pages of another size only for the reference: float32 attention sums page by page.
    const schedule schedules[] = {{8, 400, 4, 512, 1, 0},
                                  {8, 400, 4, 9, 2, seed + 1},
                                  {3, 60, 4, 3, 1, seed + 2},
                                  {5, 200, reference ? 7 : 4, 17, 1, seed + 3}};
    for (const schedule& how : schedules) {
      INFO((reference ? "reference" : "cpu")
           << ", slots " << how.sequences_max << ", budget " << how.step_tokens_max);
      const std::vector<trace> together = run(model, backend, jobs, how);
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        REQUIRE(together[i].size() == static_cast<std::size_t>(jobs[i].max_new));
        for (std::size_t t = 0; t < together[i].size(); ++t) REQUIRE(same_bits(together[i][t], alone[i][t]));
      }
    }
  }
}

}  // namespace

TEST_CASE("batched equals alone, bit for bit", "[batch_invariance]") {
  SECTION("weir-tiny") {
    const auto model =
        runner::load_model(std::filesystem::path(WEIR_SOURCE_DIR) / "configs/models/weir-tiny");
    REQUIRE(model);
    check_schedules(*model, 11);
  }
  SECTION("everything that Kimi K3 has") {
    const tests::temporary_dir dir;
    tests::write_checkpoint(tests::make_checkpoint(tests::k3_spec(), 21), dir.path());
    const auto model = runner::load_model(dir.path());
    REQUIRE(model);
    check_schedules(*model, 21);
  }
  SECTION("random checkpoints") {
    for (std::uint64_t seed = 100; seed < 108; ++seed) {
      INFO("seed " << seed);
      std::mt19937_64 random(seed);
      const tests::checkpoint_spec spec = tests::random_spec(random);
      const tests::temporary_dir dir;
      tests::write_checkpoint(tests::make_checkpoint(spec, seed), dir.path());
      const auto model = runner::load_model(dir.path());
      REQUIRE(model);
      check_schedules(*model, seed);
    }
  }
}
