#include "policy/failover/freeze.hpp"

#include <algorithm>

namespace weir::policy::failover {

void freeze_watch::heard(std::int64_t now_ns) noexcept {
  std::int64_t seen = heard_ns_.load(std::memory_order_relaxed);
  while (seen < now_ns && !heard_ns_.compare_exchange_weak(seen, now_ns, std::memory_order_relaxed)) {
  }
}

freeze_verdict freeze_watch::check(std::int64_t since_ns, std::int64_t now_ns) noexcept {
  const std::int64_t last = std::max(heard_ns_.load(std::memory_order_relaxed), since_ns);
  if (now_ns - last < terms_.silent_ns) return {freeze_step::wait, last + terms_.silent_ns};
  std::int64_t probed = probed_ns_.load(std::memory_order_relaxed);
  if (probed <= last) {
    const bool is_mine = probed_ns_.compare_exchange_strong(probed, now_ns, std::memory_order_relaxed);
    return {is_mine ? freeze_step::probe : freeze_step::wait, now_ns + terms_.probe_ns};
  }
  if (now_ns - probed < terms_.probe_ns) return {freeze_step::wait, probed + terms_.probe_ns};
  return {freeze_step::frozen, now_ns};
}

}  // namespace weir::policy::failover
