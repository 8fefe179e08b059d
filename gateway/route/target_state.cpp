#include "gateway/route/target_state.hpp"

#include <algorithm>
#include <limits>

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
  if (terms_.hosted) view.kind = policy::target_kind::hosted;
}

target_state::dispatched_work target_state::dispatched(double work_tokens, double now_s,
                                                       bool tells_first_token) {
  const std::lock_guard lock(mutex_);
  const double ahead = pending_.tokens(rate(), now_s) + others_pending_tokens_;
  work_mean_tokens_ = work_mean_tokens_ * k_mean_fade + work_tokens * (1 - k_mean_fade);
  ++running_;
  ++starting_;
  return {pending_.dispatched(work_tokens, now_s, tells_first_token), ahead};
}

void target_state::started() {
  const std::lock_guard lock(mutex_);
  --starting_;
}

void target_state::first_token(ticket id, double work_tokens, double ttft_s, double now_s) {
  const std::lock_guard lock(mutex_);
  pending_.done(id, now_s);
  speed_.observe_ttft(work_tokens, ttft_s);
}

void target_state::ended(ticket id, double now_s) {
  const std::lock_guard lock(mutex_);
  pending_.done(id, now_s);
  --running_;
}

void target_state::tokens_came(double itl_s) {
  const std::lock_guard lock(mutex_);
  speed_.observe_itl(running_ + others_running_, itl_s);
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
