// From a computed amount of dollars to an integer. A result is computed in doubles from sums of few terms
// (error below one part in 1e15) and rounded once, half away from zero, to a whole nano-dollar; cents are
// rounded from that integer. So cents are exact below $1e12, the nano-dollars below $1e5. Pure; any thread.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "policy/limits/money.hpp"

namespace weir::policy::economics {

using limits::usd_nano;

// Saturates; REQUIRES: usd >= 0 and a number.
inline usd_nano to_nano(double usd) noexcept {
  const double nano = usd * static_cast<double>(limits::k_usd);
  constexpr double most = 9.2e18;  // below what int64 holds
  return nano >= most ? std::numeric_limits<usd_nano>::max() : std::llround(nano);
}

// Half a cent is rounded up.
constexpr std::int64_t to_cents(usd_nano amount) noexcept {
  constexpr usd_nano cent = limits::k_usd / 100;
  return amount / cent + (amount % cent >= cent / 2 ? 1 : 0);
}

}  // namespace weir::policy::economics
