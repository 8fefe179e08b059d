#include "policy/limits/gcra.hpp"

#include <algorithm>

#include "policy/limits/money.hpp"

namespace weir::policy::limits {

namespace {

// Finer than the clock, so that rounding a share of a minute lets no unit more through.
constexpr std::int64_t k_ticks_per_ns = 16;
constexpr std::int64_t k_window_max_ns = std::int64_t{1} << 52;
// In ticks it leaves room for what may lie ahead, so that no sum below overflows.
constexpr std::int64_t k_now_max_ns = (std::int64_t{1} << 59) - 8 * k_window_max_ns;

std::int64_t ticks_of(std::int64_t now_ns) noexcept {
  return std::clamp<std::int64_t>(now_ns, 0, k_now_max_ns) * k_ticks_per_ns;
}

std::int64_t window_of(const rate& how) noexcept {
  return std::clamp<std::int64_t>(how.window_ns, 1, k_window_max_ns) * k_ticks_per_ns;
}

std::int64_t cost(const rate& how, std::int64_t units) noexcept {
  const std::int64_t window = window_of(how);
  const auto all = static_cast<int128>(std::max<std::int64_t>(0, units)) * window;
  const int128 share = all / std::max<std::int64_t>(1, how.limit);
  return static_cast<std::int64_t>(std::min<int128>(share, k_windows_ahead * window));
}

std::int64_t ahead_of(std::int64_t empty_at, std::int64_t now) noexcept {
  return empty_at > now ? empty_at - now : 0;
}

level level_of(const rate& how, std::int64_t empty_at, std::int64_t now) noexcept {
  const std::int64_t window = window_of(how);
  const std::int64_t ahead = ahead_of(empty_at, now);
  const auto left = static_cast<int128>(window - std::min(ahead, window));
  return {static_cast<std::int64_t>(left * how.limit / window), ahead / k_ticks_per_ns};
}

}  // namespace

gcra_cell::verdict gcra_cell::take(const rate& how, std::int64_t units, std::int64_t now_ns) noexcept {
  const std::int64_t now = ticks_of(now_ns);
  const std::int64_t window = window_of(how);
  const std::int64_t price = cost(how, units);
  std::int64_t seen = empty_at_.load(std::memory_order_relaxed);
  for (;;) {
    const std::int64_t next = std::max(seen, now) + price;
    if (next - now > window) {
      return {
          false, (next - now - window + k_ticks_per_ns - 1) / k_ticks_per_ns, level_of(how, seen, now), {}};
    }
    if (empty_at_.compare_exchange_weak(seen, next, std::memory_order_relaxed)) {
      return {true, 0, level_of(how, next, now), {units, next}};
    }
  }
}

void gcra_cell::give_back(const rate& how, const taken& got, std::int64_t unused_units,
                          std::int64_t now_ns) noexcept {
  const std::int64_t left = ahead_of(got.until, ticks_of(now_ns));
  const std::int64_t unused = std::min(unused_units, got.units);
  const std::int64_t price = std::min(cost(how, unused), left);
  if (price > 0) empty_at_.fetch_sub(price, std::memory_order_relaxed);
}

void gcra_cell::charge(const rate& how, std::int64_t units, std::int64_t now_ns) noexcept {
  const std::int64_t price = cost(how, units);
  const std::int64_t now = ticks_of(now_ns);
  const std::int64_t most = now + k_windows_ahead * window_of(how);
  std::int64_t seen = empty_at_.load(std::memory_order_relaxed);
  std::int64_t next = 0;
  do {
    next = std::max(seen, std::min(std::max(seen, now) + price, most));
  } while (!empty_at_.compare_exchange_weak(seen, next, std::memory_order_relaxed));
}

std::int64_t gcra_cell::empty_in_ns(std::int64_t now_ns) const noexcept {
  return ahead_of(empty_at_.load(std::memory_order_relaxed), ticks_of(now_ns)) / k_ticks_per_ns;
}

void gcra_cell::restore(std::int64_t empty_in_ns, std::int64_t now_ns) noexcept {
  const auto ahead_ns = std::clamp<std::int64_t>(empty_in_ns, 0, k_windows_ahead * k_window_max_ns);
  const std::int64_t wanted = ticks_of(now_ns) + ahead_ns * k_ticks_per_ns;
  std::int64_t seen = empty_at_.load(std::memory_order_relaxed);
  while (seen < wanted && !empty_at_.compare_exchange_weak(seen, wanted, std::memory_order_relaxed)) {
  }
}

level gcra_cell::look(const rate& how, std::int64_t now_ns) const noexcept {
  return level_of(how, empty_at_.load(std::memory_order_relaxed), ticks_of(now_ns));
}

}  // namespace weir::policy::limits
