// Money as an integer, so that sums are exact. Pure; any thread.
#pragma once

#include <cstdint>

namespace weir::policy::limits {

// Thousand-millionths of a dollar: a token of $0.15 per million is 150; int64 holds 9 thousand million
// dollars.
using usd_nano = std::int64_t;
inline constexpr usd_nano k_usd = 1'000'000'000;

constexpr double to_usd(usd_nano amount) noexcept {
  return static_cast<double>(amount) / static_cast<double>(k_usd);
}

// Products of two int64.
__extension__ typedef __int128 int128;

}  // namespace weir::policy::limits
