#include "policy/limits/gcra.hpp"

#include <algorithm>

#include "policy/limits/money.hpp"

namespace weir::policy::limits {

namespace {

// Finer than the clock, so that rounding a share of a minute lets no unit more through.
constexpr std::int64_t k_ticks_per_ns = 16;

std::int64_t cost(const rate& how, std::int64_t units) noexcept {
  const auto all = static_cast<int128>(std::clamp<std::int64_t>(units, 0, k_rate_max)) * how.window_ns;
  return static_cast<std::int64_t>(all * k_ticks_per_ns / how.limit);
}

level level_of(const rate& how, std::int64_t empty_at, std::int64_t now) noexcept {
  const std::int64_t window = how.window_ns * k_ticks_per_ns;
  const std::int64_t ahead = std::clamp<std::int64_t>(empty_at - now, 0, window);
  return {static_cast<std::int64_t>(static_cast<int128>(window - ahead) * how.limit / window),
          std::max<std::int64_t>(0, empty_at - now) / k_ticks_per_ns};
}

}  // namespace

gcra_cell::verdict gcra_cell::take(const rate& how, std::int64_t units, std::int64_t now_ns) noexcept {
  const std::int64_t now = now_ns * k_ticks_per_ns;
  const std::int64_t window = how.window_ns * k_ticks_per_ns;
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
  const std::int64_t left = got.until - now_ns * k_ticks_per_ns;
  const std::int64_t unused = std::clamp<std::int64_t>(unused_units, 0, got.units);
  const std::int64_t price = std::min(cost(how, unused), left);
  if (price > 0) empty_at_.fetch_sub(price, std::memory_order_relaxed);
}

void gcra_cell::charge(const rate& how, std::int64_t units, std::int64_t now_ns) noexcept {
  const std::int64_t price = cost(how, units);
  const std::int64_t now = now_ns * k_ticks_per_ns;
  std::int64_t seen = empty_at_.load(std::memory_order_relaxed);
  while (!empty_at_.compare_exchange_weak(seen, std::max(seen, now) + price, std::memory_order_relaxed)) {
  }
}

std::int64_t gcra_cell::empty_in_ns(std::int64_t now_ns) const noexcept {
  const std::int64_t ahead = empty_at_.load(std::memory_order_relaxed) / k_ticks_per_ns - now_ns;
  return std::max<std::int64_t>(0, ahead);
}

void gcra_cell::restore(std::int64_t empty_in_ns, std::int64_t now_ns) noexcept {
  const std::int64_t wanted = (now_ns + std::max<std::int64_t>(0, empty_in_ns)) * k_ticks_per_ns;
  std::int64_t seen = empty_at_.load(std::memory_order_relaxed);
  while (seen < wanted && !empty_at_.compare_exchange_weak(seen, wanted, std::memory_order_relaxed)) {
  }
}

level gcra_cell::look(const rate& how, std::int64_t now_ns) const noexcept {
  return level_of(how, empty_at_.load(std::memory_order_relaxed), now_ns * k_ticks_per_ns);
}

}  // namespace weir::policy::limits
