#include "gateway/route/target_state.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "policy/score.hpp"

namespace weir::gateway::route {

namespace {

constexpr double k_mean_fade = 0.95;
constexpr double k_seconds_per_hour = 3600;
constexpr double k_tokens_per_mtok = 1e6;

prefix_index::replica_model_options model_options(const config::cache_config& cache,
                                                  std::uint32_t unit_tokens) {
  prefix_index::replica_model_options out{
      .capacity_tokens = cache.capacity_tokens > 0 ? static_cast<std::uint64_t>(cache.capacity_tokens)
                                                   : k_capacity_guess_tokens,
      .unit_tokens = unit_tokens,
      .page_tokens = static_cast<std::uint32_t>(cache.block_tokens)};
  if (cache.checkpoint_tokens > 0)
    out.checkpoint_tokens = static_cast<std::uint32_t>(cache.checkpoint_tokens);
  using prefix_index::retention;
  if (resumes_anywhere(cache)) {
    out.keeps = retention::dense;
  } else if (cache.retention == "prompt_end") {
    out.keeps = retention::prompt_end;
  } else if (cache.retention == "interval") {
    out.keeps = retention::interval;
    out.interval_units = static_cast<std::uint32_t>(std::clamp<std::int64_t>(
        cache.interval_tokens / unit_tokens, 1, std::numeric_limits<std::int32_t>::max()));
  } else {
    out.keeps = retention::prompt_end_second_sighting;
  }
  return out;
}

policy::speed_prior prior_of(const config::terms_config& terms) {
  return {.prefill_tokens_per_s = static_cast<double>(terms.prefill_tokens_per_s),
          .ttft_base_s = static_cast<double>(terms.ttft_base_ms) / 1000};
}

}  // namespace

target_state::target_state(prefix_index::residency_index& index, prefix_index::replica_id id,
                           const config::target_config& config, std::uint32_t unit_tokens)
    : name_(config.name),
      id_(id),
      cache_(config.cache),
      terms_(config.terms),
      index_(index),
      unit_tokens_(unit_tokens),
      speed_(prior_of(config.terms)) {
  if (cache_.on && cache_.events.empty()) use_simulation();
}

target_state::~target_state() {
  own_model_.reset();
  index_.clear(id_);
}

void target_state::use_simulation() {
  own_model_ =
      std::make_unique<prefix_index::replica_model>(index_, id_, model_options(cache_, unit_tokens_));
  model_.store(own_model_.get(), std::memory_order_release);
}

double target_state::rate() const noexcept {
  return speed_.view().prefill_tokens_per_s;
}

void target_state::fill(policy::target_view& view, double now_s) const {
  const std::lock_guard lock(mutex_);
  view.speed = speed_.view();
  const bool told = now_s - reported_at_s_ <= k_report_kept_s;
  view.load.pending_prefill_tokens =
      pending_.tokens(view.speed.prefill_tokens_per_s, now_s) + (told ? others_pending_tokens_ : 0);
  view.load.running = running_ + (told ? others_running_ : 0);
  view.load.overdue_s = pending_.overdue_s(policy::prefill_rate(view.speed), view.speed.ttft_base_s, now_s);
  view.full = view.full || starting_ >= view.free_places;
  const auto first = terms_.prices.empty() ? config::price_tier_config{} : terms_.prices.front();
  view.price = {
      .usd_per_s = terms_.usd_per_hour / k_seconds_per_hour,
      .fresh_usd_per_token = first.fresh_usd.value_or(0) / k_tokens_per_mtok,
      .cached_usd_per_token = first.cached_usd.value_or(first.fresh_usd.value_or(0)) / k_tokens_per_mtok,
      .output_usd_per_token = first.output_usd.value_or(0) / k_tokens_per_mtok};
  view.quality = terms_.quality;
  view.accounts = accounts(told);
  view.outcomes = outcomes_.views(now_s);
  if (terms_.hosted) view.kind = policy::target_kind::hosted;
}

policy::account_view target_state::accounts(bool told) const noexcept {
  const auto& has = terms_.accounts;
  const auto context = has.context_tokens > 0 ? has.context_tokens : reported_context_tokens_;
  return {.memory_bytes = has.memory_bytes,
          .weights_bytes = has.weights_bytes,
          .runtime_bytes = has.runtime_bytes,
          .slots = has.state_slots,
          .slots_used = slots_ + (told ? others_slots_ : 0),
          .context_tokens = has.state_slots > 0 || has.context_tokens > 0 ? context : 0,
          .context_tokens_used = context_tokens_ + (told ? others_context_tokens_ : 0),
          .page_tokens = has.page_tokens,
          .slots_reserved = has.kept_slots,
          .context_tokens_reserved = has.kept_context_tokens,
          .checkpoint_bytes = has.state_bytes,
          .transfer_bytes_per_s = has.transfer_bytes_per_s,
          .transfer_pending_bytes = static_cast<double>(resuming_) * static_cast<double>(has.state_bytes)};
}

target_state::dispatched_work target_state::dispatched(double work_tokens, double now_s,
                                                       bool tells_first_token,
                                                       const policy::account_need& takes, bool resumes) {
  const std::lock_guard lock(mutex_);
  const double ahead = pending_.tokens(rate(), now_s) + others_pending_tokens_;
  work_mean_tokens_ = work_mean_tokens_ * k_mean_fade + work_tokens * (1 - k_mean_fade);
  ++running_;
  ++starting_;
  slots_ += takes.sequences;
  context_tokens_ += takes.context_tokens;
  resuming_ += resumes ? 1 : 0;
  return {pending_.dispatched(work_tokens, now_s, tells_first_token), ahead, takes, resumes};
}

void target_state::started() {
  const std::lock_guard lock(mutex_);
  --starting_;
}

void target_state::first_token(dispatched_work& work, double work_tokens, double ttft_s, double now_s) {
  const std::lock_guard lock(mutex_);
  pending_.done(work.id, now_s);
  resuming_ -= std::exchange(work.resumes, false) ? 1 : 0;
  speed_.observe_ttft(work_tokens, ttft_s);
}

void target_state::ended(dispatched_work& work, double now_s) {
  const std::lock_guard lock(mutex_);
  pending_.done(work.id, now_s);
  resuming_ -= std::exchange(work.resumes, false) ? 1 : 0;
  slots_ -= work.takes.sequences;
  context_tokens_ -= work.takes.context_tokens;
  --running_;
}

void target_state::turned_away(policy::verdict why) noexcept {
  using policy::verdict;
  const std::size_t at = why == verdict::no_state_slot ? 0 : why == verdict::no_context_pages ? 1 : 2;
  turned_away_[at].fetch_add(1, std::memory_order_relaxed);
}

target_state::turned_away_counts target_state::turned_away() const noexcept {
  return {turned_away_[0].load(std::memory_order_relaxed), turned_away_[1].load(std::memory_order_relaxed),
          turned_away_[2].load(std::memory_order_relaxed)};
}

// What the target's own report says beyond our own requests is others'.
void target_state::note_usage(const load_report& report) noexcept {
  const auto used = [](double share, std::int64_t of) {
    return static_cast<std::int64_t>(share * static_cast<double>(of));
  };
  if (report.capacity_tokens > 0)
    reported_context_tokens_ = static_cast<std::int64_t>(report.capacity_tokens);
  const auto& has = terms_.accounts;
  const auto context = has.context_tokens > 0 ? has.context_tokens : reported_context_tokens_;
  if (report.state_usage >= 0) {
    others_slots_ = std::max<std::int64_t>(0, used(report.state_usage, has.state_slots) - slots_);
  }
  if (report.context_usage >= 0) {
    others_context_tokens_ = std::max<std::int64_t>(0, used(report.context_usage, context) - context_tokens_);
  }
}

void target_state::tokens_came(double itl_s) {
  const std::lock_guard lock(mutex_);
  speed_.observe_itl(running_ + others_running_, itl_s);
}

void target_state::result(policy::result_seen seen, const api::token_usage& usage, double now_s) {
  if (terms_.hosted && !terms_.prices.empty() && usage.prompt_tokens > 0) {
    const auto& first = terms_.prices.front();
    const auto cached =
        static_cast<double>(std::clamp<std::int64_t>(usage.cached_tokens, 0, usage.prompt_tokens));
    const double fresh_usd = first.fresh_usd.value_or(0);
    seen.cost_usd = ((static_cast<double>(usage.prompt_tokens) - cached) * fresh_usd +
                     cached * first.cached_usd.value_or(fresh_usd) +
                     static_cast<double>(std::max<std::int64_t>(usage.completion_tokens, 0)) *
                         first.output_usd.value_or(0)) /
                    k_tokens_per_mtok;
  }
  const std::lock_guard lock(mutex_);
  outcomes_.note(seen, now_s);
}

std::array<policy::outcome_estimator::totals, policy::k_request_classes> target_state::results() const {
  const std::lock_guard lock(mutex_);
  std::array<policy::outcome_estimator::totals, policy::k_request_classes> out;
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = outcomes_.total(static_cast<policy::request_class>(i));
  return out;
}

bool target_state::report(const load_report& report, double now_s) {
  bool restarted = false;
  {
    const std::lock_guard lock(mutex_);
    reported_at_s_ = now_s;
    const auto own_pending = static_cast<double>(pending_.requests());
    if (report.waiting_uncached_tokens >= 0) {
      const double own = pending_.tokens(rate(), now_s);
      others_pending_tokens_ = std::max(0.0, report.waiting_uncached_tokens - own);
    } else if (report.waiting >= 0) {
      others_pending_tokens_ = std::max(0.0, report.waiting - own_pending) * work_mean_tokens_;
    }
    if (report.running >= 0) {
      const double all = report.running + std::max(0.0, report.waiting);
      others_running_ = static_cast<std::int32_t>(std::clamp(all - running_, 0.0, 1e6));
    }
    note_usage(report);
    // A counter that fell belongs to a new process, whose cache is empty.
    restarted = report.queried_tokens >= 0 && report.queried_tokens < queried_tokens_;
    if (report.queried_tokens >= 0) queried_tokens_ = report.queried_tokens;
  }
  auto* const predicted = model();
  if (predicted == nullptr) return restarted;
  if (restarted) predicted->clear();
  if (cache_.capacity_tokens == 0 && report.capacity_tokens > 0 && report.capacity_tokens < 1e15) {
    predicted->set_capacity(static_cast<std::uint64_t>(report.capacity_tokens));
  }
  return restarted;
}

}  // namespace weir::gateway::route
