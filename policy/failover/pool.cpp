#include "policy/failover/pool.hpp"

#include <algorithm>

#include "policy/mix.hpp"

namespace weir::policy::failover {

std::size_t ejections_max(std::size_t ready) noexcept {
  if (ready == 0) return 0;
  return ready < k_small_pool ? ready / 2 : ready - 1;
}

void overrule_ejections(std::span<const pool_member> pool, std::span<bool> overruled) noexcept {
  std::fill(overruled.begin(), overruled.end(), false);
  std::size_t ready = 0, ejected = 0;
  for (const auto& m : pool) {
    ready += m.ready ? 1 : 0;
    ejected += m.ready && m.ejected ? 1 : 0;
  }
  for (; ejected > ejections_max(ready); --ejected) {
    std::size_t soonest = pool.size();
    for (std::size_t i = 0; i < pool.size(); ++i) {
      if (!pool[i].ready || !pool[i].ejected || overruled[i]) continue;
      if (soonest == pool.size() || pool[i].from_ns < pool[soonest].from_ns) soonest = i;
    }
    overruled[soonest] = true;
  }
}

bool takes_part(const standing& is, bool is_retry, std::uint64_t seed, std::size_t target) noexcept {
  if (is_retry && is.ejected) return false;
  return is.weight >= 1 || mixed_unit(seed ^ mix(target)) < is.weight;
}

}  // namespace weir::policy::failover
