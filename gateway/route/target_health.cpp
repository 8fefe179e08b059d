#include "gateway/route/target_health.hpp"

namespace weir::gateway::route {

using policy::failover::permit;

permit target_health::acquire(std::int64_t at_ns) {
  const std::lock_guard lock(mutex_);
  if (const auto given = breaker_.acquire(at_ns)) return *given;
  return breaker_.acquire(at_ns, true).value_or(permit{.as = permit::use::overruled});
}

void target_health::content(const permit& under, std::int64_t at_ns) {
  const std::lock_guard lock(mutex_);
  breaker_.content(under, at_ns);
}

void target_health::ended(const permit& under, policy::failover::breaker_effect effect, std::int64_t at_ns) {
  const std::lock_guard lock(mutex_);
  breaker_.ended(under, effect, at_ns);
}

void target_health::hold(std::int64_t pause_ns, std::int64_t at_ns) {
  const std::lock_guard lock(mutex_);
  breaker_.hold(pause_ns, at_ns);
}

}  // namespace weir::gateway::route
