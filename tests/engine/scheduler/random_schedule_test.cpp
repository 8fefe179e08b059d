// Random schedules of a tiny random model: arrivals, cancels, a pool so small that sequences lose their
// memory, prompts that part around every boundary. Whatever happens, each sequence's tokens and logits are
// those of the same request alone without a cache: bit for bit on the reference backend, and within its
// tolerance on the float32 one.
//
// WEIR_SCHEDULES sets how many run, WEIR_SCHEDULE_SEED the first one's seed.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/runner/model_runner.hpp"
#include "engine/scheduler/scheduler.hpp"
#include "tests/support/random_checkpoint.hpp"

namespace {

using namespace weir::engine;
namespace tests = weir::tests;
using model_ptr = std::shared_ptr<const runner::loaded_model>;
using trace = std::vector<std::vector<double>>;  // logits of each generated token

constexpr std::int32_t k_longest = 88;        // positions of a sequence
constexpr double k_float32_tolerance = 1e-4;  // of logits
constexpr std::uint64_t k_default_count = 1500;
constexpr std::int32_t k_new_tokens_max = 40;

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class dice final {
 public:
  explicit dice(std::uint64_t seed) : random_(seed) {}
  std::int32_t pick(std::int32_t low, std::int32_t high) {
    return low + static_cast<std::int32_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool one_in(std::int32_t n) { return pick(1, n) == 1; }
  std::uint64_t bits() { return random_(); }

 private:
  std::mt19937_64 random_;
};

struct job {
  generate_request request;
  std::vector<std::int32_t> tokens;  // what it says alone
  trace logits;
};

// A request with the machine to itself: no scheduler, no cache, one chunk per token.
class alone final {
 public:
  alone(const model_ptr& model, backend_kind backend) : vocab_(model->config.vocab_size) {
    runner::runner_config config;
    config.backend = backend;
    config.page_tokens = 8;
    const std::int32_t slab_pages =
        runner::layout_of(model->config, runner::numbers_of(backend), 8).slab_pages;
    pages_.resize((k_longest - 1) / 8 + 1);
    std::iota(pages_.begin(), pages_.end(), slab_pages);
    config.slab_count = 1 + (static_cast<std::int32_t>(pages_.size()) - 1) / slab_pages + 1;
    runner_ = runner::make_runner(model, config);
  }

  void run(job& job) {
    sample::sampler sampler(job.request.sampling);
    std::vector<std::int32_t> next = job.request.prompt;
    std::int32_t position = 0;
    std::vector<double> logits(static_cast<std::size_t>(vocab_));
    for (std::int32_t i = 0; i < job.request.max_new_tokens; ++i) {
      runner::batch work;
      work.reset(static_cast<std::int32_t>(pages_.size()));
      work.append(next, position, 0, pages_);
      work.logit_rows = {work.row_count() - 1};
      runner_->run(work);
      position += work.row_count();
      runner_->copy_logits(0, logits);
      job.logits.push_back(logits);
      job.tokens.push_back(sampler.next(logits).token);
      next = {job.tokens.back()};
    }
  }

 private:
  std::int32_t vocab_;
  std::vector<std::int32_t> pages_;
  std::unique_ptr<runner::model_runner> runner_;
};

struct coverage {
  std::uint64_t steps = 0, cancels = 0, preemptions = 0, evictions = 0, moved_pages = 0, copied_pages = 0;
  std::uint64_t hits[cache::k_checkpoint_kinds] = {};
  std::uint64_t compared = 0, stopped_early = 0;
};

std::vector<std::int32_t> random_tokens(dice& roll, std::int32_t count, std::int32_t vocab) {
  std::vector<std::int32_t> out;
  for (std::int32_t i = 0; i < count; ++i) out.push_back(roll.pick(0, vocab - 1));
  return out;
}

scheduler::limits random_limits(dice& roll, const model_ptr& model, backend_kind backend) {
  static constexpr std::int32_t k_page_tokens[] = {1, 2, 3, 4, 5, 8, 16, 32};
  static constexpr std::int32_t k_units[] = {1, 2, 3, 4, 5, 7, 8, 16};
  scheduler::limits out;
  out.sequences_max = roll.pick(1, 6);
  out.step_tokens_max = roll.pick(out.sequences_max, 48);
  out.chunk_align_tokens = roll.one_in(2) ? 1 : roll.pick(1, std::min(8, out.step_tokens_max));
  scheduler::memory_config& memory = out.memory;
  memory.page_tokens = k_page_tokens[roll.pick(0, 7)];
  memory.unit_tokens = k_units[roll.pick(0, 7)];
  memory.cache = !roll.one_in(12);
  memory.spacing_tokens = roll.one_in(3) ? memory.unit_tokens * roll.pick(1, 5) : 0;
  memory.remembered_tokens_max = roll.one_in(4) ? roll.pick(0, 60) : 1 << 20;
  memory.hash_seed = roll.bits();
  memory.pool.slab_pages =
      runner::layout_of(model->config, runner::numbers_of(backend), memory.page_tokens).slab_pages;
  return out;
}

// A prompt of its own, or one that leaves another's course, prompt or answer, around a boundary.
std::vector<std::int32_t> random_prompt(dice& roll, const std::vector<job>& before, std::int32_t vocab,
                                        const scheduler::memory_config& memory) {
  std::vector<std::int32_t> out;
  if (!before.empty() && !roll.one_in(4)) {
    const job& other = before[static_cast<std::size_t>(roll.pick(0, static_cast<int>(before.size()) - 1))];
    out = other.request.prompt;
    out.insert(out.end(), other.tokens.begin(), other.tokens.end());
    const std::int32_t grain = roll.one_in(2) ? memory.unit_tokens : memory.page_tokens;
    const auto size = static_cast<std::int32_t>(out.size());
    const std::int32_t cut = roll.pick(0, size / grain + 1) * grain + roll.pick(-1, 1);
    out.resize(static_cast<std::size_t>(std::clamp(cut, 0, std::min(size, k_longest - k_new_tokens_max))));
  }
  const std::int32_t more = roll.one_in(5) ? 0 : roll.pick(0, out.empty() ? 30 : 12);
  const auto tail = random_tokens(roll, more, vocab);
  out.insert(out.end(), tail.begin(), tail.end());
  if (out.empty()) out = random_tokens(roll, 1, vocab);
  out.resize(std::min<std::size_t>(out.size(), k_longest - k_new_tokens_max));
  return out;
}

std::vector<job> random_jobs(dice& roll, const model_ptr& model, alone& by_itself,
                             const scheduler::memory_config& memory) {
  std::vector<job> jobs;
  const std::int32_t vocab = model->config.vocab_size;
  for (std::int32_t i = roll.pick(2, 9); i > 0; --i) {
    job one;
    one.request.prompt = random_prompt(roll, jobs, vocab, memory);
    one.request.max_new_tokens = roll.one_in(2) ? roll.pick(1, 4) : roll.pick(10, k_new_tokens_max);
    one.request.scope = std::string(static_cast<std::size_t>(roll.pick(0, 1)), 't');
    for (std::int32_t hints = roll.one_in(3) ? 2 : 0; hints > 0; --hints) {
      one.request.checkpoint_at.push_back(roll.pick(-3, k_longest));
    }
    one.request.sampling.temperature = roll.one_in(2) ? 0.0F : 0.9F;
    one.request.sampling.presence_penalty = roll.one_in(3) ? 1.5F : 0.0F;
    one.request.sampling.seed = roll.bits();
    by_itself.run(one);
    jobs.push_back(std::move(one));
  }
  return jobs;
}

// From just what the longest request needs by itself to room for several.
scheduler::limits& with_pool(scheduler::limits& limits, const std::vector<job>& jobs, dice& roll) {
  std::int32_t longest = 0;
  for (const job& one : jobs) {
    const auto prompt = static_cast<std::int32_t>(one.request.prompt.size());
    longest = std::max(longest, prompt + one.request.max_new_tokens - 1);
  }
  kv::pool_shape& pool = limits.memory.pool;
  const std::int32_t pages = (longest - 1) / limits.memory.page_tokens + 1;
  pool.slab_count = 1 + (pages - 1) / pool.slab_pages + 1 + (roll.one_in(3) ? 0 : roll.pick(0, 4));
  return limits;
}

class schedule final {
 public:
  schedule(const model_ptr& model, backend_kind backend, dice& roll, alone& by_itself, coverage& seen)
      : reference_(backend == backend_kind::reference),
        roll_(roll),
        seen_(seen),
        limits_(random_limits(roll, model, backend)),
        jobs_(random_jobs(roll, model, by_itself, limits_.memory)),
        plan_(with_pool(limits_, jobs_, roll)),
        said_(jobs_.size(), 0) {
    runner::runner_config config;
    config.backend = backend;
    config.slab_count = limits_.memory.pool.slab_count;
    config.page_tokens = limits_.memory.page_tokens;
    runner_ = runner::make_runner(model, config);
    logits_.resize(static_cast<std::size_t>(model->config.vocab_size));
  }

  void run() {
    const std::int32_t haste = roll_.pick(1, 6);
    for (int step = 0; next_ < jobs_.size() || plan_.has_work(); ++step) {
      REQUIRE(step < 20000);
      while (next_ < jobs_.size() && (!plan_.has_work() || roll_.one_in(haste))) submit();
      if (!outstanding_.empty() && roll_.one_in(100)) cancel();
      const runner::batch& work =
          plan_.plan(roll_.one_in(2) ? std::numeric_limits<std::int32_t>::max() : roll_.pick(0, 20));
      REQUIRE((work.row_count() > 0) == plan_.has_work());
      if (work.row_count() == 0) continue;
      REQUIRE(work.row_count() <= limits_.step_tokens_max);
      for (const kv::memory_op& op : copy()) {
        if (op.what == kv::memory_op::kind::copy_page) ++seen_.copied_pages;
      }
      runner_->run(work);
      ++seen_.steps;
      std::int32_t index = 0;
      for (scheduler::sequence* seq : plan_.complete()) {
        runner_->copy_logits(index++, logits_);
        take(*seq);
      }
      check_memory();
    }
    CHECK(outstanding_.empty());
    const auto& counters = plan_.memory().cached().counters();
    for (std::size_t i = 0; i < cache::k_checkpoint_kinds; ++i) seen_.hits[i] += counters.hit_tokens[i];
    seen_.evictions += counters.evicted;
    seen_.preemptions += plan_.counters().preemptions;
    CHECK(plan_.memory().pool().used_pages() == plan_.memory().pool().cached_pages());
    CHECK(plan_.memory().pool().states() == plan_.memory().cached().checkpoint_count());
  }

 private:
  std::vector<kv::memory_op> copy() {
    auto ops = plan_.take_ops();
    runner_->copy(ops);
    return ops;
  }

  void submit() {
    generate_request request = jobs_[next_].request;
    plan_.add(std::make_unique<scheduler::sequence>(next_, std::move(request), nullptr));
    outstanding_.insert(next_++);
  }

  void cancel() {
    auto it = outstanding_.begin();
    std::advance(it, roll_.pick(0, static_cast<std::int32_t>(outstanding_.size()) - 1));
    CHECK(plan_.remove(*it) != nullptr);
    outstanding_.erase(it);
    ++seen_.cancels;
  }

  // A token's logits against those of the request alone.
  void take(scheduler::sequence& seq) {
    const job& one = jobs_[seq.id];
    const std::size_t index = said_[seq.id]++;
    INFO("request " << seq.id << ", token " << index);
    REQUIRE(index < one.tokens.size());
    const std::vector<double>& expected = one.logits[index];
    const std::int32_t token = seq.sampler.next(logits_).token;
    ++seen_.compared;
    if (reference_) {
      REQUIRE(std::memcmp(logits_.data(), expected.data(), expected.size() * sizeof(double)) == 0);
      REQUIRE(token == one.tokens[index]);
    } else {
      double worst = 0.0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        worst = std::max(worst, std::fabs(logits_[i] - expected[i]));
      }
      REQUIRE(worst <= k_float32_tolerance);
      if (token != one.tokens[index]) {
        REQUIRE(close_call(one, expected));
        ++seen_.stopped_early;
        drop(seq.id);
        return;
      }
    }
    seq.tokens.push_back(token);
    if (seq.generated() == seq.max_new_tokens) drop(seq.id);
  }

  // Whether rounding may have decided: a draw's thresholds cannot be told from here, an argmax's can.
  static bool close_call(const job& one, std::vector<double> logits) {
    if (one.request.sampling.temperature > 0.0F || one.request.sampling.presence_penalty > 0.0F) return true;
    std::ranges::nth_element(logits, logits.begin() + 1, std::greater<>());
    return logits[0] - logits[1] <= 2.0 * k_float32_tolerance;
  }

  void drop(sequence_id id) {
    CHECK(plan_.remove(id) != nullptr);
    outstanding_.erase(id);
  }

  void check_memory() const {
    const kv::memory_pool& pool = plan_.memory().pool();
    REQUIRE(pool.free_pages() + pool.used_pages() +
                static_cast<std::int64_t>(pool.states()) * pool.slab_pages() ==
            pool.total_pages());
    REQUIRE(pool.states() == plan_.running_count() + plan_.memory().cached().checkpoint_count());
  }

  bool reference_;
  dice& roll_;
  coverage& seen_;
  scheduler::limits limits_;
  std::vector<job> jobs_;
  scheduler::scheduler plan_;
  std::vector<std::size_t> said_;
  std::unique_ptr<runner::model_runner> runner_;
  std::vector<double> logits_;
  std::size_t next_ = 0;
  std::set<sequence_id> outstanding_;
};

// Layers of both kinds around each other; experts in every other model, what Kimi K3 adds in every fourth.
model_ptr tiny_model(std::uint64_t seed) {
  tests::checkpoint_spec spec;
  spec.hidden = 16;
  spec.vocab = 24;
  spec.mla_heads = 2;
  spec.kv_rank = seed < 2 ? 8 : 40;  // a state takes as much as 33 tokens, or as 9
  spec.nope = 8;
  spec.rope = 4;
  spec.value = 8;
  spec.kda_heads = 1;
  spec.kda_dim = 16;
  spec.dense_width = 16;
  spec.expert_width = 8;
  spec.is_kda = {true, false};
  if (seed % 2 == 1) spec.is_kda = {true, false, true};
  spec.dense_layers = seed % 2 == 0 ? 2 : 1;
  if (seed % 4 == 3) {
    spec.nested = spec.full_rank_gate = spec.mla_gate = spec.packed = spec.routed_norm = true;
    spec.gate_bound = -5.0;
    spec.situ_beta = 4.0;
    spec.situ_linear = 25.0;
    spec.q_rank = 8;
    spec.routed = spec.expert_width = 32;
    spec.residual_block = 2;
  }
  const tests::temporary_dir dir;
  tests::write_checkpoint(tests::make_checkpoint(spec, seed), dir.path());
  const auto model = runner::load_model(dir.path());
  INFO((model ? std::string() : model.error().detail));
  REQUIRE(model);
  return *model;
}

void run_schedules(backend_kind backend, std::uint64_t count, coverage& seen) {
  constexpr std::uint64_t k_models = 4;
  const std::uint64_t first = from_environment("WEIR_SCHEDULE_SEED", 1);
  std::vector<model_ptr> models;
  std::vector<std::unique_ptr<alone>> by_itself;
  for (std::uint64_t i = 0; i < k_models; ++i) {
    models.push_back(tiny_model(i));
    by_itself.push_back(std::make_unique<alone>(models.back(), backend));
  }
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    INFO("schedule seed " << seed);
    dice roll(seed);
    schedule one(models[seed % k_models], backend, roll, *by_itself[seed % k_models], seen);
    one.run();
  }
  WARN(count << " schedules from seed " << first << ": " << seen.steps << " steps, " << seen.compared
             << " tokens compared, " << seen.cancels << " cancels, " << seen.preemptions << " preemptions, "
             << seen.evictions << " evictions, " << seen.copied_pages << " page copies, cached tokens "
             << seen.hits[0] << " prompt end, " << seen.hits[1] << " junction, " << seen.hits[2] << " hint, "
             << seen.hits[3] << " interval; " << seen.stopped_early << " close calls");
}

}  // namespace

TEST_CASE("any schedule gives the reference's very tokens and logits", "[random_schedule]") {
  coverage seen;
  run_schedules(backend_kind::reference, from_environment("WEIR_SCHEDULES", k_default_count), seen);
  CHECK(seen.cancels > 0);
  CHECK(seen.preemptions > 0);
  CHECK(seen.evictions > 0);
  CHECK(seen.copied_pages > 0);
  for (const std::uint64_t tokens : seen.hits) CHECK(tokens > 0);
}

TEST_CASE("any schedule gives the float32 backend's tokens within its tolerance", "[random_schedule]") {
  coverage seen;
  run_schedules(backend_kind::cpu, from_environment("WEIR_SCHEDULES", k_default_count) / 4, seen);
  CHECK(seen.preemptions > 0);
  CHECK(seen.stopped_early * 50 < seen.compared);
}
