// Numbers that look random and repeat with their seed. Pure; any thread.
#pragma once

#include <cstdint>

namespace weir::policy {

// SplitMix64 (Steele, Lea, Flood 2014): one well-mixed word of a counter.
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// The same as a number in [0, 1).
constexpr double mixed_unit(std::uint64_t x) noexcept {
  return static_cast<double>(mix(x) >> 11) * 0x1p-53;
}

}  // namespace weir::policy
