#include "engine/eval/eval.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>

#include "engine/eval/golden.hpp"
#include "engine/parallel/follower.hpp"
#include "engine/parallel/group.hpp"
#include "engine/parallel/leader.hpp"
#include "engine/runner/backend.hpp"
#include "kernels/parallel.hpp"

namespace weir::engine::eval {

namespace {

constexpr std::int32_t k_chunk_tokens_max = 1 << 16;
constexpr std::int32_t k_page_tokens_max = 1 << 12;
constexpr double k_tolerance_max = 1e6;

double distance(double a, double b) {
  const double gap = std::fabs(a - b);
  return std::isnan(gap) ? std::numeric_limits<double>::infinity() : gap;
}

double worst_distance(std::span<const double> ours, std::span<const double> golden) {
  double worst = 0.0;
  for (std::size_t i = 0; i < golden.size(); ++i) worst = std::max(worst, distance(ours[i], golden[i]));
  return worst;
}

std::int32_t argmax(std::span<const double> logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double logprob(std::span<const double> logits, std::int32_t token) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double total = 0.0;
  for (const double logit : logits) total += std::exp(logit - largest);
  return logits[static_cast<std::size_t>(token)] - largest - std::log(total);
}

// What every rank has before it begins: its part of the model, and what will be run.
struct prepared {
  eval_options options;
  std::unique_ptr<parallel::communicator> ranks;  // null: this process computes alone
  std::shared_ptr<const runner::loaded_model> model;
  std::vector<golden_case> cases;
  std::int32_t page_count = 0;  // of the longest case
  std::int32_t slab_pages = 0;
  std::int32_t slab_count() const noexcept { return 1 + (page_count - 1) / slab_pages + 1; }
};

// One sequence alone: its state is the first slab, its pages fill those behind it in order.
std::unique_ptr<runner::model_runner> make_runner(const prepared& with) {
  runner::runner_config config;
  config.backend = with.options.backend;
  config.activations = with.options.activations;
  config.compute_threads = with.options.compute_threads;
  config.slab_count = with.slab_count();
  config.page_tokens = with.options.page_tokens;
  config.ranks = with.ranks.get();
  config.part = parallel::shard::of(with.options.ranks);
  config.device = with.options.ranks.local_rank;
  config.latent_norm_eps = with.options.latent_norm_eps;
  config.l2_norm_eps = with.options.l2_norm_eps;
  return runner::make_runner(with.model, config);
}

class session final {
 public:
  session(const prepared& with, std::unique_ptr<runner::model_runner> run)
      : pages_(static_cast<std::size_t>(with.page_count)),
        logits_(static_cast<std::size_t>(with.model->config.vocab_size)),
        runner_(std::move(run)) {
    std::iota(pages_.begin(), pages_.end(), with.slab_pages);
  }

  void restart() noexcept { position_ = 0; }

  // Runs the tokens as one chunk; visit(i, logits after tokens[i]) for each.
  template <class Visit>
  void run(std::span<const std::int32_t> tokens, Visit visit) {
    work_.reset(static_cast<std::int32_t>(pages_.size()));
    work_.append(tokens, position_, 0, pages_);
    work_.logit_rows.resize(tokens.size());
    std::iota(work_.logit_rows.begin(), work_.logit_rows.end(), 0);
    runner_->run(work_);
    position_ += static_cast<std::int32_t>(tokens.size());
    tokens_run_ += static_cast<std::int64_t>(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      runner_->copy_logits(static_cast<std::int32_t>(i), logits_);
      visit(i, std::span<const double>(logits_));
    }
  }

  std::span<const double> last_logits() const noexcept { return logits_; }
  std::vector<double> state_norms() const { return runner_->kda_state_norms(0); }
  std::int64_t tokens_run() const noexcept { return tokens_run_; }

 private:
  std::vector<std::int32_t> pages_;
  std::vector<double> logits_;  // after the last token
  std::unique_ptr<runner::model_runner> runner_;
  runner::batch work_;
  std::int32_t position_ = 0;
  std::int64_t tokens_run_ = 0;
};

// A different argmax is an error only if our own logits tell the two tokens apart by more than the tolerance
// allows.
bool differs(std::span<const double> logits, std::int32_t golden, double tolerance) {
  const std::int32_t ours = argmax(logits);
  if (ours == golden) return false;
  const double gap = logits[static_cast<std::size_t>(ours)] - logits[static_cast<std::size_t>(golden)];
  return !(gap <= 2.0 * tolerance);
}

void run_prompt(session& run, const golden_case& golden, const eval_options& options, double tolerance,
                eval_case& out) {
  const std::span<const std::int32_t> prompt = golden.prompt;
  const auto chunk = static_cast<std::size_t>(options.chunk_tokens);
  for (std::size_t first = 0; first < prompt.size(); first += chunk) {
    run.run(prompt.subspan(first, std::min(chunk, prompt.size() - first)),
            [&](std::size_t i, std::span<const double> logits) {
              const std::size_t position = first + i;
              if (!golden.argmax.empty() && differs(logits, golden.argmax[position], tolerance)) {
                ++out.errors.argmax_mismatches;
              }
              if (position < golden.next_logprob.size()) {
                const double ours = logprob(logits, golden.prompt[position + 1]);
                out.errors.next_logprob =
                    std::max(out.errors.next_logprob, distance(ours, golden.next_logprob[position]));
              }
            });
  }
}

// Follows the golden continuation up to the first difference; one at a step with a clear margin is a
// mismatch.
void run_greedy(session& run, const golden_case& golden, double tolerance, eval_case& out) {
  for (std::size_t i = 0; i < golden.greedy.size(); ++i) {
    const std::int32_t ours = argmax(run.last_logits());
    if (ours != golden.greedy[i]) {
      const bool clear = golden.greedy_margin.empty() || golden.greedy_margin[i] > 2.0 * tolerance;
      if (clear) ++out.errors.greedy_mismatches;
      return;
    }
    ++out.greedy_tokens;
    if (i + 1 == golden.greedy.size()) return;
    run.run(std::span(&golden.greedy[i], 1), [](std::size_t, std::span<const double>) {});
  }
}

eval_counts counts_of(const golden_case& golden) {
  const auto count = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
  return {.logits = count(golden.logits),
          .next_logprob = count(golden.next_logprob),
          .kda_state = count(golden.kda_state),
          .argmax = count(golden.argmax),
          .greedy = count(golden.greedy)};
}

eval_counts counts_of(const std::vector<golden_case>& cases) {
  eval_counts out;
  for (const golden_case& golden : cases) {
    const eval_counts more = counts_of(golden);
    out.logits += more.logits;
    out.next_logprob += more.next_logprob;
    out.kda_state += more.kda_state;
    out.argmax += more.argmax;
    out.greedy += more.greedy;
  }
  return out;
}

eval_case run_case(session& run, const golden_case& golden, const eval_options& options, double tolerance) {
  eval_case out;
  out.compared = counts_of(golden);
  out.prompt_tokens = static_cast<std::int32_t>(golden.prompt.size());
  run.restart();
  run_prompt(run, golden, options, tolerance, out);
  out.errors.logits = worst_distance(run.last_logits(), golden.logits);
  out.errors.kda_state = worst_distance(run.state_norms(), golden.kda_state);
  run_greedy(run, golden, tolerance, out);
  return out;
}

void fold(const eval_errors& from, eval_errors& into) {
  into.logits = std::max(into.logits, from.logits);
  into.next_logprob = std::max(into.next_logprob, from.next_logprob);
  into.kda_state = std::max(into.kda_state, from.kda_state);
  into.argmax_mismatches += from.argmax_mismatches;
  into.greedy_mismatches += from.greedy_mismatches;
}

result<void> check(const eval_options& options) {
  const bool good = options.compute_threads >= 1 &&
                    options.compute_threads <= kernels::k_compute_threads_max && options.chunk_tokens >= 1 &&
                    options.chunk_tokens <= k_chunk_tokens_max && options.page_tokens >= 1 &&
                    options.page_tokens <= k_page_tokens_max;
  if (!good) return fail(errc::bad_request, "evaluation: threads, chunk or page is out of range");
  const double tolerance = options.tolerance.value_or(0);
  if (!(tolerance >= 0 && tolerance <= k_tolerance_max))
    return fail(errc::bad_request, "the tolerance must be from 0 to 1000000");
  return {};
}

// Everything that this rank needs, and the others joined.
result<prepared> prepare(const eval_options& wanted) {
  if (auto checked = check(wanted); !checked) return std::unexpected(checked.error());
  const auto backend = runner::resolve(wanted.backend);
  if (!backend) return std::unexpected(backend.error());
  prepared out;
  out.options = wanted;
  out.options.backend = *backend;
  auto model = runner::load_model(wanted.model_dir, {.weights = wanted.weights,
                                                     .threads = wanted.compute_threads,
                                                     .part = parallel::shard::of(wanted.ranks)});
  if (!model) return std::unexpected(model.error());
  out.model = std::move(*model);
  auto cases = read_golden(wanted.cases, out.model->config);
  if (!cases) return std::unexpected(cases.error());
  out.cases = std::move(*cases);
  const auto first = static_cast<std::size_t>(wanted.cases_max);
  if (first > 0 && out.cases.size() > first) out.cases.resize(first);
  std::size_t longest = 1;
  for (const golden_case& golden : out.cases)
    longest = std::max(longest, golden.prompt.size() + golden.greedy.size());
  out.page_count = (static_cast<std::int32_t>(longest) - 1) / wanted.page_tokens + 1;
  const auto numbers = runner::numbers_of(*backend, wanted.activations);
  out.slab_pages = runner::layout_of(out.model->config, numbers, wanted.page_tokens).slab_pages;
  auto ranks = parallel::join_group(
      wanted.ranks, "evaluation, backend " + std::to_string(static_cast<int>(*backend)) + ", weights " +
                        std::to_string(static_cast<int>(wanted.weights)) + ", activations " +
                        std::to_string(static_cast<int>(wanted.activations)) + ", split " +
                        std::to_string(static_cast<int>(wanted.ranks.split)) + ", page_tokens " +
                        std::to_string(wanted.page_tokens) + ", pages " + std::to_string(out.page_count));
  if (!ranks) return std::unexpected(ranks.error());
  out.ranks = std::move(*ranks);
  return out;
}

eval_report run_cases(session& run, const prepared& with) {
  eval_report report;
  report.backend = with.options.backend;
  report.compared = counts_of(with.cases);
  report.tolerance =
      with.options.tolerance.value_or(default_tolerance(with.options.backend, with.model->config));
  const auto start = std::chrono::steady_clock::now();
  for (const golden_case& golden : with.cases) {
    report.cases.push_back(run_case(run, golden, with.options, report.tolerance));
    fold(report.cases.back().errors, report.worst);
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.tokens = run.tokens_run();
  return report;
}

}  // namespace

double default_tolerance(backend_kind backend, const model::model_config& model) noexcept {
  constexpr double k_double = 2e-6;
  constexpr double k_float = 1e-4;
  constexpr double k_amplified = 5e-4;
  if (backend == backend_kind::reference) return k_double;
  return model.residual_block > 0 || model.routed_width > 0 ? k_amplified : k_float;
}

bool eval_report::passed() const noexcept {
  return worst.logits <= tolerance && worst.next_logprob <= tolerance && worst.kda_state <= tolerance &&
         worst.argmax_mismatches == 0 && worst.greedy_mismatches == 0;
}

result<eval_report> evaluate(const eval_options& wanted) {
  auto with = prepare(wanted);
  if (!with) return std::unexpected(with.error());
  if (counts_of(with->cases).all() == 0) {
    return fail(errc::bad_request, wanted.cases.string() +
                                       ": nothing to compare: no case has logits, argmax, next_logprob, "
                                       "kda_state or greedy");
  }
  try {
    auto runs = make_runner(*with);
    if (with->ranks) {
      runs = parallel::make_leader(std::move(with->ranks), std::move(runs), wanted.page_tokens);
    }
    session run(*with, std::move(runs));
    return run_cases(run, *with);
  } catch (const parallel::rank_lost& lost) {
    return fail(errc::lost, lost.what());
  } catch (const std::runtime_error& fault) {
    return fail(errc::io, fault.what());
  }
}

result<void> follow_evaluation(const eval_options& wanted) {
  const auto with = prepare(wanted);
  if (!with) return std::unexpected(with.error());
  parallel::step_limits limits;
  limits.vocab_size = with->model->config.vocab_size;
  limits.slab_count = with->slab_count();
  limits.slab_pages = with->slab_pages;
  limits.page_tokens = wanted.page_tokens;
  limits.context_tokens = with->page_count * wanted.page_tokens;
  limits.rows_max = wanted.chunk_tokens;
  try {
    return parallel::follow(*with->ranks, *make_runner(*with), limits);
  } catch (const std::runtime_error& fault) {
    return fail(errc::io, fault.what());
  }
}

}  // namespace weir::engine::eval
