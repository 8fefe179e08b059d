#include "gateway/upstream/outage_log.hpp"

namespace weir::gateway::upstream {

std::optional<std::uint64_t> outage_log::failed(time_point now) noexcept {
  const std::int64_t now_ns = std::chrono::nanoseconds(now.time_since_epoch()).count();
  const std::int64_t then_ns = now_ns + std::chrono::nanoseconds(k_outage_pause).count();
  std::int64_t next_ns = next_ns_.load(std::memory_order_relaxed);
  if (now_ns < next_ns || !next_ns_.compare_exchange_strong(next_ns, then_ns, std::memory_order_relaxed)) {
    unsaid_.fetch_add(1, std::memory_order_relaxed);
    return std::nullopt;
  }
  said_.store(true, std::memory_order_relaxed);
  return unsaid_.exchange(0, std::memory_order_relaxed);
}

std::optional<std::uint64_t> outage_log::recovered() noexcept {
  const bool told = said_.load(std::memory_order_relaxed) && said_.exchange(false, std::memory_order_relaxed);
  if (!told) return std::nullopt;
  return unsaid_.exchange(0, std::memory_order_relaxed);
}

}  // namespace weir::gateway::upstream
