#include "policy/failover/attempts.hpp"

#include <algorithm>

namespace weir::policy::failover {

attempts::attempts(const attempt_terms& terms, const attempt_budgets& budgets,
                   std::int64_t deadline_ns) noexcept
    : terms_(terms), budgets_(budgets), deadline_ns_(deadline_ns) {}

bool attempts::is_running(int attempt) const noexcept {
  return attempt >= 0 && attempt < begun_ && attempts_[static_cast<std::size_t>(attempt)].runs;
}

int attempts::running() const noexcept {
  return static_cast<int>(std::count_if(attempts_.begin(), attempts_.end(), [](auto& a) { return a.runs; }));
}

std::int64_t attempts::content_by(const attempt_state& of) const noexcept {
  return terms_.content_ns > 0 ? std::min(deadline_ns_, of.begun_ns + terms_.content_ns) : deadline_ns_;
}

std::int64_t attempts::next_wake() const noexcept {
  switch (phase_) {
    case phase::trying:
      return std::min(deadline_ns_, running() > 0 && picking_ == pick_for::nothing ? hedge_ns_ : k_never_ns);
    case phase::pausing:
      return std::min(deadline_ns_, resume_ns_);
    case phase::fresh:
    case phase::relaying:
    case phase::ended:
      break;
  }
  return k_never_ns;
}

action attempts::wait() const noexcept {
  return {.what = step::wait, .wake_ns = next_wake()};
}

void attempts::forget_pick() noexcept {
  if (picking_ == pick_for::retry && budgets_.retries != nullptr) budgets_.retries->give_back(1);
  if (picking_ == pick_for::hedge && budgets_.hedges != nullptr) budgets_.hedges->give_back(budgets_.cost);
  picking_ = pick_for::nothing;
}

// When the first of those that asked for a pause may be used again, as far as known; 0: not known.
std::int64_t attempts::back_at(std::int64_t now_ns) const noexcept {
  std::int64_t first = ready_at_ns_ > now_ns ? ready_at_ns_ : k_never_ns;
  for (int i = 0; i < begun_; ++i) {
    const auto& a = attempts_[static_cast<std::size_t>(i)];
    if (a.banned_until_ns > now_ns) first = std::min(first, a.banned_until_ns);
  }
  return first < k_never_ns ? first : 0;
}

action attempts::end(failure_kind why, int attempt, std::int64_t now_ns) noexcept {
  forget_pick();
  phase_ = phase::ended;
  action out{.what = step::end, .attempt = attempt};
  out.how = {.why = why, .reply = traits_of(why).reply, .never_placed = false, .attempt = attempt};
  if (out.how.reply == client_reply::unavailable) {
    if (const auto back_ns = back_at(now_ns); back_ns > 0) out.how.retry_after_ns = back_ns - now_ns;
  }
  return out;
}

action attempts::end_with_last(std::int64_t now_ns) noexcept {
  if (last_ != failure_kind::none) return end(last_, last_attempt_, now_ns);
  auto out = end(failure_kind::unavailable, k_no_attempt, now_ns);
  out.how.never_placed = true;
  return out;
}

action attempts::begin(std::int64_t now_ns) noexcept {
  if (phase_ != phase::fresh) return {};
  phase_ = phase::trying;
  if (budgets_.retries != nullptr) budgets_.retries->add(1, now_ns);
  if (budgets_.hedges != nullptr) budgets_.hedges->add(budgets_.cost, now_ns);
  if (deadline_ns_ - now_ns < terms_.attempt_min_ns) {
    return end(failure_kind::out_of_time, k_no_attempt, now_ns);
  }
  picking_ = pick_for::first;
  return {.what = step::pick, .wake_ns = next_wake()};
}

bool attempts::may_use(std::size_t target, std::int64_t context_tokens, std::int64_t now_ns) const noexcept {
  if (context_tokens <= window_above_) return false;
  for (int i = 0; i < begun_; ++i) {
    const auto& a = attempts_[static_cast<std::size_t>(i)];
    if (a.target == target && (a.runs || now_ns < a.banned_until_ns)) return false;
  }
  return true;
}

action attempts::placed(std::size_t target, std::int64_t context_tokens, std::int64_t now_ns) noexcept {
  if (phase_ != phase::trying || picking_ == pick_for::nothing) return {};
  if (deadline_ns_ - now_ns < terms_.attempt_min_ns) {
    forget_pick();
    return running() > 0 ? action{} : end(failure_kind::out_of_time, k_no_attempt, now_ns);
  }
  picking_ = pick_for::nothing;
  const int attempt = begun_++;
  auto& a = attempts_[static_cast<std::size_t>(attempt)];
  a = {.target = target, .context_tokens = context_tokens, .begun_ns = now_ns, .runs = true};
  const bool may_hedge = terms_.hedge_after_ns > 0 && budgets_.hedges != nullptr && !hedged_;
  if (may_hedge) hedge_ns_ = now_ns + terms_.hedge_after_ns;
  auto out = wait();
  out.attempt = attempt;
  out.content_by_ns = content_by(a);
  return out;
}

action attempts::unplaced(int attempt) noexcept {
  if (phase_ != phase::trying || !is_running(attempt) || attempt + 1 != begun_) return {};
  attempts_[static_cast<std::size_t>(--begun_)] = {};
  picking_ = running() > 0 ? pick_for::hedge : begun_ == unsent_ ? pick_for::first : pick_for::retry;
  return {.what = step::pick, .wake_ns = next_wake()};
}

action attempts::none_placed(std::int64_t ready_at_ns, std::int64_t now_ns) noexcept {
  if (phase_ != phase::trying || picking_ == pick_for::nothing) return {};
  forget_pick();
  if (running() > 0) return wait();
  ready_at_ns_ = ready_at_ns;
  const std::int64_t back_ns = back_at(now_ns);
  const bool is_soon = back_ns > 0 && back_ns - now_ns <= terms_.wait_max_ns &&
                       deadline_ns_ - back_ns >= terms_.attempt_min_ns;
  if (!is_soon || paused_) return end_with_last(now_ns);
  paused_ = true;
  phase_ = phase::pausing;
  resume_ns_ = back_ns;
  return wait();
}

action attempts::shed(std::int64_t retry_after_ns) noexcept {
  if (phase_ != phase::trying || running() > 0) return {};
  auto out = end(failure_kind::shed, k_no_attempt, 0);
  out.how.never_placed = begun_ == 0;
  out.how.retry_after_ns = retry_after_ns;
  return out;
}

action attempts::content(int attempt, std::int64_t now_ns) noexcept {
  if (phase_ != phase::trying || !is_running(attempt)) return {};
  static_cast<void>(now_ns);
  forget_pick();
  phase_ = phase::relaying;
  winner_ = attempt;
  action out{.what = step::forward, .attempt = attempt};
  for (int i = 0; i < begun_; ++i) {
    auto& a = attempts_[static_cast<std::size_t>(i)];
    if (i == attempt || !a.runs) continue;
    a.runs = false;
    out.cancel = i;
  }
  return out;
}

action attempts::finished(int attempt, std::int64_t now_ns) noexcept {
  if (!is_running(attempt)) return {};
  if (phase_ != phase::relaying) return failed(attempt, failure_kind::broken, 0, now_ns);
  attempts_[static_cast<std::size_t>(attempt)].runs = false;
  return end(failure_kind::none, attempt, now_ns);
}

action attempts::failed(int attempt, failure_kind why, std::int64_t retry_after_ns, std::int64_t now_ns,
                        bool same_again) noexcept {
  if (phase_ == phase::ended || !is_running(attempt)) return {};
  auto& a = attempts_[static_cast<std::size_t>(attempt)];
  if (why == failure_kind::stale_connection && phase_ == phase::trying && !a.reconnected) {
    a.reconnected = true;
    return {
        .what = step::reconnect, .attempt = attempt, .content_by_ns = content_by(a), .wake_ns = next_wake()};
  }
  a.runs = false;
  const auto& traits = traits_of(why);
  if (phase_ == phase::relaying) {
    const bool is_late = traits.reply == client_reply::error_event || traits.reply == client_reply::nothing;
    return end(is_late ? why : failure_kind::interrupted, attempt, now_ns);
  }
  const std::int64_t pause_ns = retry_after_ns > 0 ? retry_after_ns : terms_.pause_ns;
  a.banned_until_ns = traits.holds_target ? now_ns + std::min(pause_ns, k_never_ns - now_ns) : k_never_ns;
  if (same_again) a.banned_until_ns = now_ns;
  if (traits.retry == retry_scope::larger_window) window_above_ = std::max(window_above_, a.context_tokens);
  if (why == failure_kind::unsupported) ++unsent_;
  last_ = why;
  last_attempt_ = attempt;
  if (traits.retry == retry_scope::none) return end(why, attempt, now_ns);
  if (running() > 0 || picking_ != pick_for::nothing) return wait();
  return retry(now_ns, same_again);
}

action attempts::retry(std::int64_t now_ns, bool is_free) noexcept {
  const int most = std::clamp(terms_.attempts_max, 1, k_attempts_max);
  const bool is_last = begun_ - unsent_ >= most || begun_ >= k_attempts_max;
  if (is_last || deadline_ns_ - now_ns < terms_.attempt_min_ns) return end_with_last(now_ns);
  const bool is_first = begun_ == unsent_ || is_free;
  if (!is_first && budgets_.retries != nullptr && !budgets_.retries->take(1, now_ns)) {
    retry_denied_ = true;
    return end_with_last(now_ns);
  }
  phase_ = phase::trying;
  picking_ = is_first ? pick_for::first : pick_for::retry;
  return {.what = step::pick, .wake_ns = next_wake()};
}

action attempts::hedge(std::int64_t now_ns) noexcept {
  hedge_ns_ = k_never_ns;
  hedged_ = true;
  const int most = std::clamp(terms_.attempts_max, 1, k_attempts_max);
  const bool is_late = deadline_ns_ - now_ns < terms_.attempt_min_ns;
  if (begun_ >= most || is_late) return wait();
  if (!budgets_.hedges->take(budgets_.cost, now_ns)) {
    hedge_denied_ = true;
    return wait();
  }
  picking_ = pick_for::hedge;
  return {.what = step::pick, .wake_ns = next_wake()};
}

action attempts::client_gone() noexcept {
  if (phase_ == phase::ended) return {};
  return end(failure_kind::client_gone, k_no_attempt, 0);
}

action attempts::tick(std::int64_t now_ns) noexcept {
  if (phase_ == phase::pausing && now_ns >= resume_ns_) return retry(now_ns);
  if (phase_ != phase::trying) return phase_ == phase::ended ? action{} : wait();
  if (now_ns >= deadline_ns_) return end(failure_kind::out_of_time, k_no_attempt, now_ns);
  if (running() > 0 && picking_ == pick_for::nothing && now_ns >= hedge_ns_) return hedge(now_ns);
  return wait();
}

ending attempts::timeout_of(int attempt, std::int64_t now_ns) const noexcept {
  if (attempt < 0 || attempt >= begun_) return ending::deadline;
  const auto& a = attempts_[static_cast<std::size_t>(attempt)];
  const std::int64_t fair_ns =
      terms_.content_ns > 0 ? terms_.content_ns : deadline_ns_ - attempts_[0].begun_ns;
  return (now_ns - a.begun_ns) * 2 >= fair_ns ? ending::first_content_timeout : ending::deadline;
}

}  // namespace weir::policy::failover
