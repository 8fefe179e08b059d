#include <algorithm>
#include <cmath>
#include <utility>

#include "gateway/route/model_router.hpp"

namespace weir::gateway::route {

namespace {

using std::chrono::steady_clock;

constexpr double k_mean_fade = 0.95;

}  // namespace

attempt::attempt(model_router& router, std::size_t target, std::shared_ptr<const prompt_identity> prompt,
                 policy::decision made)
    : router_(&router),
      target_(target),
      prompt_(std::move(prompt)),
      made_(std::move(made)),
      health_(*router.targets_[target].health),
      begun_(steady_clock::now()) {}

attempt::attempt(attempt&& other) noexcept
    : router_(std::exchange(other.router_, nullptr)),
      target_(other.target_),
      prompt_(std::move(other.prompt_)),
      made_(std::move(other.made_)),
      members_(std::move(other.members_)),
      work_(other.work_),
      health_(std::move(other.health_)),
      contract_(other.contract_),
      starting_(other.starting_),
      told_(other.told_),
      waited_s_(other.waited_s_),
      begun_(other.begun_),
      first_(other.first_),
      hint_units_(std::move(other.hint_units_)) {}

attempt::~attempt() {
  if (router_ == nullptr) return;
  starts();
  router_->targets_[target_].state->ended(work_, now_s());
  router_->work_ended();
}

upstream::upstream& attempt::target() const noexcept {
  return *router_->targets_[target_].target;
}

void attempt::tell_index() {
  auto* const model = router_->targets_[target_].state->model();
  const auto chain = prompt_->chain();
  if (model == nullptr || chain.empty()) return;
  const auto held = model->dispatched(chain, hint_units_);
  router_->shared_.changed(chain);
  // Others may have been sent there since it was looked up.
  const auto& cache = router_->targets_[target_].state->cache();
  const auto unit = static_cast<std::int64_t>(prompt_->keys.unit_tokens);
  auto& prefix = made_.candidates[target_].prefix;
  prefix.page_tokens = whole_blocks(held.pages * unit, cache);
  prefix.reusable_tokens = whole_blocks(held.checkpoint * unit, cache);
}

void attempt::failed(policy::failover::breaker_effect effect, std::int64_t hold_ns) {
  health_.end(effect);
  // What the client or its request is to blame for says nothing of the target.
  if (effect == policy::failover::breaker_effect::failure) tell_outcome(false, {}, -1);
  if (hold_ns > 0) router_->targets_[target_].health->hold(hold_ns, now_ns());
}

void attempt::tell_outcome(bool whole, const api::token_usage& usage, double itl_s) {
  if (std::exchange(told_, true)) return;
  const auto& c = choice();
  const double ttft_s = first_ ? std::chrono::duration<double>(*first_ - begun_).count() : -1;
  const policy::result_seen seen{.of = policy::class_of(static_cast<std::int64_t>(prompt_->keys.tokens)),
                                 .whole = whole,
                                 .within_contract = whole && contract_.is_met(ttft_s, itl_s),
                                 .predicted = c.contract_probability,
                                 .cost_usd = c.cost_usd};
  router_->targets_[target_].state->result(seen, usage, now_s());
}

void attempt::starts() {
  if (std::exchange(starting_, false)) router_->targets_[target_].state->started();
}

void attempt::first_token() {
  if (first_) return;
  health_.content();
  first_ = steady_clock::now();
  const double ttft_s = std::chrono::duration<double>(*first_ - begun_).count();
  const auto& c = choice();
  const double work = std::max(
      0.0, static_cast<double>(prompt_->keys.tokens) - static_cast<double>(c.prefix.reusable_tokens));
  router_->targets_[target_].state->first_token(work_, work + work_.ahead_tokens, ttft_s, now_s());
  router_->work_ended();
}

void attempt::finished(const api::token_usage& usage, bool streamed) {
  health_.end(policy::failover::breaker_effect::success);
  auto& state = *router_->targets_[target_].state;
  double itl_s = -1;
  if (streamed && first_ && usage.completion_tokens > 1) {
    const double took_s = std::chrono::duration<double>(steady_clock::now() - *first_).count();
    itl_s = took_s / static_cast<double>(usage.completion_tokens - 1);
    state.tokens_came(itl_s);
  }
  tell_outcome(true, usage, itl_s);
  if (usage.completion_tokens > 0) {
    auto& mean = router_->output_tokens_mean_;
    const auto tokens = static_cast<double>(usage.completion_tokens);
    const double old = mean.load(std::memory_order_relaxed);
    // A lost update is one observation of many.
    mean.store(old == 0 ? tokens : old * k_mean_fade + tokens * (1 - k_mean_fade), std::memory_order_relaxed);
  }
  const auto& keys = prompt_->keys;
  if (usage.cached_tokens < 0 || keys.keys.empty() || !state.has_cache()) return;
  const auto predicted = static_cast<double>(choice().prefix.reusable_tokens);
  const auto cached = static_cast<double>(usage.cached_tokens);
  const auto& counters = router_->shared_.counters();
  counters.prompt_tokens->Increment(static_cast<double>(std::max<std::int64_t>(0, usage.prompt_tokens)));
  counters.predicted_tokens->Increment(predicted);
  counters.cached_tokens->Increment(cached);
  counters.error_tokens->Increment(std::abs(predicted - cached));
  // A true prediction needs no correction, which would undo what this very request has stored.
  if (predicted == cached) return;
  if (auto* model = state.model(); model != nullptr && keys.how == keyed_how::tokens) {
    const auto chain = prompt_->chain();
    const auto tokens = static_cast<std::uint64_t>(usage.cached_tokens);
    // The last unit of whole pages is theirs although they may end within it.
    const bool long_pages = state.cache().block_tokens > static_cast<std::int64_t>(keys.unit_tokens);
    const auto units = (tokens + (long_pages ? keys.unit_tokens - 1 : 0)) / keys.unit_tokens;
    model->correct(chain, static_cast<std::uint32_t>(std::min<std::uint64_t>(chain.size(), units)));
  }
}

}  // namespace weir::gateway::route
