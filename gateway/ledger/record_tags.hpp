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
};

inline constexpr std::uint8_t k_value_version = 1;

}  // namespace weir::gateway::ledger
