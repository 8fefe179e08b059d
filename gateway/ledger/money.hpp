// Sums of money that stop at the ends of the scale instead of wrapping round. Pure; any thread.
#pragma once

#include <limits>

#include "policy/limits/money.hpp"

namespace weir::gateway::ledger {

using policy::limits::usd_nano;

inline constexpr usd_nano k_usd_nano_max = std::numeric_limits<usd_nano>::max();

// Holds any sum of open reservations exactly: what saturated could not be taken apart again.
__extension__ typedef __int128 wide_nano;

constexpr usd_nano saturated(wide_nano sum) noexcept {
  return sum > k_usd_nano_max ? k_usd_nano_max : static_cast<usd_nano>(sum);
}

// REQUIRES: a, b >= 0.
constexpr usd_nano add_saturating(usd_nano a, usd_nano b) noexcept {
  return a > k_usd_nano_max - b ? k_usd_nano_max : a + b;
}

// Never below 0. REQUIRES: a, b >= 0.
constexpr usd_nano subtract_floored(usd_nano a, usd_nano b) noexcept {
  return a > b ? a - b : 0;
}

}  // namespace weir::gateway::ledger
