// The mixing of splitmix64 (Steele, Lea, Flood 2014), for hashes and reproducible random numbers. Pure; any
// thread.
#pragma once

#include <cstdint>

namespace weir::engine {

inline constexpr std::uint64_t k_splitmix_step = 0x9E3779B97F4A7C15ULL;

// The finalizer: every input bit reaches every output bit.
constexpr std::uint64_t mix_all_bits(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace weir::engine
