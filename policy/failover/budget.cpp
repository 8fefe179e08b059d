#include "policy/failover/budget.hpp"

#include <algorithm>

namespace weir::policy::failover {

// Only one thread turns the window on; the others count in the slot before until it has cleared the next.
share_budget::slot& share_budget::slot_at(std::int64_t now_ns) noexcept {
  const std::int64_t wanted = now_ns / std::max<std::int64_t>(1, terms_.window_ns / k_slots);
  std::int64_t at = current_.load(std::memory_order_acquire);
  if (wanted > at && !turning_.test_and_set(std::memory_order_acquire)) {
    at = current_.load(std::memory_order_relaxed);
    const std::int64_t turns = std::min<std::int64_t>(wanted - at, k_slots);
    for (std::int64_t i = 0; i < turns; ++i) {
      auto& old = slots_[static_cast<std::size_t>(wanted - i) % k_slots];
      added_.fetch_sub(old.added.exchange(0, std::memory_order_relaxed), std::memory_order_relaxed);
      taken_.fetch_sub(old.taken.exchange(0, std::memory_order_relaxed), std::memory_order_relaxed);
    }
    at = std::max(at, wanted);
    current_.store(at, std::memory_order_release);
    turning_.clear(std::memory_order_release);
  }
  return slots_[static_cast<std::size_t>(at) % k_slots];
}

void share_budget::add(std::int64_t units, std::int64_t now_ns) noexcept {
  slot_at(now_ns).added.fetch_add(units, std::memory_order_relaxed);
  added_.fetch_add(units, std::memory_order_relaxed);
}

bool share_budget::take(std::int64_t units, std::int64_t now_ns) noexcept {
  slot& here = slot_at(now_ns);
  std::int64_t seen = taken_.load(std::memory_order_relaxed);
  do {
    const std::int64_t all = added_.load(std::memory_order_relaxed);
    const std::int64_t share = all / 1000 * terms_.share_permille + all % 1000 * terms_.share_permille / 1000;
    if (seen + units > std::max(terms_.units_min, share)) return false;
  } while (!taken_.compare_exchange_weak(seen, seen + units, std::memory_order_relaxed));
  here.taken.fetch_add(units, std::memory_order_relaxed);
  return true;
}

// In the current slot: it leaves the window no earlier than what was taken did.
void share_budget::give_back(std::int64_t units) noexcept {
  const auto at = static_cast<std::size_t>(current_.load(std::memory_order_acquire)) % k_slots;
  slots_[at].taken.fetch_sub(units, std::memory_order_relaxed);
  taken_.fetch_sub(units, std::memory_order_relaxed);
}

}  // namespace weir::policy::failover
