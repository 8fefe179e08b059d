// Whether one target is fit for requests, as its answers tell (policy/failover/breaker.hpp): shared by all
// models that use it, over reloads. Threads: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>

#include "policy/failover/breaker.hpp"

namespace weir::gateway::route {

// The monotonic clock that failover is told the time by.
inline std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class target_health final {
 public:
  target_health(const policy::failover::breaker_terms& terms, std::uint64_t seed) : breaker_(terms, seed) {}

  policy::failover::standing look(std::int64_t at_ns) const noexcept { return breaker_.look(at_ns); }

  // For an attempt that was decided on a moment ago: if somebody else was quicker to take the probe, it goes
  // there all the same.
  policy::failover::permit acquire(std::int64_t at_ns);
  void content(const policy::failover::permit& under, std::int64_t at_ns);
  void ended(const policy::failover::permit& under, policy::failover::breaker_effect effect,
             std::int64_t at_ns);
  void hold(std::int64_t pause_ns, std::int64_t at_ns);

 private:
  mutable std::mutex mutex_;
  policy::failover::breaker breaker_;  // look() without the lock
};

// An attempt's use of a target's health: told how it ended once; an attempt that nobody ended says nothing.
class health_use final {
 public:
  explicit health_use(target_health& of) : health_(&of), permit_(of.acquire(now_ns())) {}
  health_use(health_use&& other) noexcept
      : health_(std::exchange(other.health_, nullptr)), permit_(other.permit_) {}
  health_use& operator=(health_use&&) = delete;
  ~health_use() { end(policy::failover::breaker_effect::neutral); }

  void content() {
    if (health_ != nullptr) health_->content(permit_, now_ns());
  }
  void end(policy::failover::breaker_effect effect) {
    if (auto* const health = std::exchange(health_, nullptr)) health->ended(permit_, effect, now_ns());
  }

 private:
  target_health* health_;  // null: told
  policy::failover::permit permit_;
};

}  // namespace weir::gateway::route
