#include "policy/failover/breaker.hpp"

#include <algorithm>

#include "policy/mix.hpp"

namespace weir::policy::failover {

breaker::word breaker::unpack(std::uint64_t packed) noexcept {
  return {static_cast<state>(packed % 4), static_cast<std::int64_t>(packed / 4)};
}

void breaker::become(state is, std::int64_t time_ns) noexcept {
  const auto time = static_cast<std::uint64_t>(std::clamp<std::int64_t>(time_ns, 0, k_never_ns));
  word_.store(time * 4 + static_cast<std::uint64_t>(is), std::memory_order_relaxed);
}

standing breaker::look(std::int64_t now_ns) const noexcept {
  const auto [is, time_ns] = now_is();
  const bool is_due = now_ns >= time_ns;
  const auto low = terms_.slow_start_weight;
  switch (is) {
    case state::closed:
      return {.usable = is_due, .from_ns = time_ns};
    case state::ramping: {
      const auto past_ns = static_cast<double>(std::max<std::int64_t>(0, now_ns - time_ns));
      const double done = terms_.slow_start_ns > 0 ? past_ns / static_cast<double>(terms_.slow_start_ns) : 1;
      return {.usable = is_due, .weight = std::min(1.0, low + (1 - low) * done), .from_ns = time_ns};
    }
    case state::open:
      return {.usable = is_due,
              .probe = is_due,
              .ejected = true,
              .weight = is_due ? 1 : terms_.overruled_weight,
              .from_ns = time_ns};
    case state::probing:
      return {.usable = is_due,
              .ejected = !is_due,
              .weight = is_due ? low : terms_.overruled_weight,
              .from_ns = time_ns};
  }
  return {};
}

std::optional<permit> breaker::acquire(std::int64_t now_ns, bool overrule) noexcept {
  const auto [is, time_ns] = now_is();
  const bool is_due = now_ns >= time_ns;
  switch (is) {
    case state::closed:
      if (!is_due) return std::nullopt;
      return permit{era_, permit::use::normal};
    case state::ramping:
      if (!is_due) return std::nullopt;
      if (now_ns - time_ns >= terms_.slow_start_ns) become(state::closed, time_ns);
      return permit{era_, permit::use::normal};
    case state::open:
      if (is_due) {
        ++era_;
        become(state::probing, k_never_ns);
        return permit{era_, permit::use::probe};
      }
      break;
    case state::probing:
      if (is_due) {
        close(now_ns);
        return permit{era_, permit::use::normal};
      }
      break;
  }
  if (!overrule) return std::nullopt;
  return permit{era_, permit::use::overruled};
}

void breaker::content(const permit& under, std::int64_t now_ns) noexcept {
  if (under.as != permit::use::probe || under.era != era_) return;
  become(state::probing, now_ns + terms_.probe_settled_ns);
}

void breaker::ended(const permit& under, breaker_effect effect, std::int64_t now_ns) noexcept {
  if (under.era != era_) return;
  const bool is_success = effect == breaker_effect::success;
  switch (under.as) {
    case permit::use::normal:
      if (effect != breaker_effect::neutral) count(!is_success, now_ns);
      return;
    case permit::use::probe:
      if (is_success) return close(now_ns);
      if (effect == breaker_effect::failure) return open(now_ns);
      ++era_;
      become(state::open, now_ns);  // the next request probes
      return;
    case permit::use::overruled:
      if (is_success && now_is().is == state::open) close(now_ns);
      return;
  }
}

void breaker::hold(std::int64_t pause_ns, std::int64_t now_ns) noexcept {
  const std::int64_t until = now_ns + std::min(pause_ns, terms_.open_max_ns);
  const auto [is, time_ns] = now_is();
  if (is == state::probing || until <= std::max(now_ns, time_ns)) return;
  become(is, until);
}

void breaker::open(std::int64_t now_ns) noexcept {
  if (openings_ > 0 && now_is().is != state::probing && now_ns - closed_at_ns_ >= opened_for_ns_) {
    openings_ = 0;
  }
  ++openings_;
  const std::int64_t times = std::min<std::int64_t>(openings_, terms_.open_max_ns / terms_.open_ns + 1);
  const std::int64_t whole = std::min(terms_.open_ns * times, terms_.open_max_ns);
  const double kept = 1 - terms_.open_jitter * mixed_unit(seed_ + turns_++);
  opened_for_ns_ = static_cast<std::int64_t>(static_cast<double>(whole) * kept);
  consecutive_ = 0;
  window_.fill({});
  ++era_;
  become(state::open, now_ns + opened_for_ns_);
}

void breaker::close(std::int64_t now_ns) noexcept {
  closed_at_ns_ = now_ns;
  consecutive_ = 0;
  window_.fill({});
  ++era_;
  become(state::ramping, now_ns);
}

void breaker::count(bool is_failure, std::int64_t now_ns) noexcept {
  const std::int64_t at = now_ns / std::max<std::int64_t>(1, terms_.window_ns / k_window_slots);
  const std::int64_t turns = std::clamp<std::int64_t>(at - window_at_, 0, k_window_slots);
  for (std::int64_t i = 0; i < turns; ++i) window_[static_cast<std::size_t>(at - i) % k_window_slots] = {};
  window_at_ = std::max(window_at_, at);
  auto& here = window_[static_cast<std::size_t>(window_at_) % k_window_slots];
  ++here.ended;
  if (!is_failure) {
    consecutive_ = 0;
    return;
  }
  ++here.failed;
  ++consecutive_;
  tally all;
  for (const auto& t : window_) {
    all.ended += t.ended;
    all.failed += t.failed;
  }
  const bool is_share = all.ended >= terms_.window_ended_min &&
                        static_cast<double>(all.failed) >= terms_.window_share * all.ended;
  if (consecutive_ >= terms_.consecutive_max || is_share) open(now_ns);
}

}  // namespace weir::policy::failover
