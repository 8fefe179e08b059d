// First byte of a key, and the version of a value's layout: internal to the codec.
#pragma once

#include <cstdint>

namespace weir::gateway::ledger {

enum class tag : char {
  state = 1,
  account = 2,
  window = 3,
  reservation = 4,
  charge = 5,
  key = 6,
  tenant = 7,
  traffic = 9,
  pair = 10,
};

inline constexpr std::uint8_t k_value_version = 1;

// Of pairs.
inline constexpr std::int64_t k_pair_number_max = std::int64_t{1} << 62;  // times, counts, sums
inline constexpr std::uint16_t k_status_max = 999;
inline constexpr std::uint32_t k_overlap_one = 1'000'000;  // the overlap 1, in millionths

}  // namespace weir::gateway::ledger
