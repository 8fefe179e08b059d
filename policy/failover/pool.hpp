// Ejection over a whole pool: breakers judge each target alone, here the pool keeps enough of them. A target
// that failed is better than none, and a pool that shrinks under load fails altogether. A pool are targets
// that stand in for one another for any request: a model's replicas, apart from its hosted targets, which not
// every key may use. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "policy/failover/breaker.hpp"

namespace weir::policy::failover {

inline constexpr std::size_t k_small_pool = 10;  // below it at most half are ejected, from it on all but one

struct pool_member {
  bool ready = true;         // could be used but for its breaker: up, not draining, not held
  bool ejected = false;      // standing::ejected
  std::int64_t from_ns = 0;  // standing::from_ns
};

// How many of so many ready targets may be ejected at once.
std::size_t ejections_max(std::size_t ready) noexcept;

// Which ejected members are used all the same: of those beyond the bound the ones that are due soonest.
// REQUIRES: as many in `overruled` as in `pool`.
void overrule_ejections(std::span<const pool_member> pool, std::span<bool> overruled) noexcept;

// Whether a target takes part in choosing for the request of that seed, so that over many requests it gets
// the share that its weight says. A request that has failed once does not probe. Where nothing is left, the
// caller chooses among all.
bool takes_part(const standing& is, bool is_retry, std::uint64_t seed, std::size_t target) noexcept;

}  // namespace weir::policy::failover
