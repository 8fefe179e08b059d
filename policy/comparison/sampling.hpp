// Which requests are copied: decided by the request's identifier and a seed alone, so that it repeats and two
// gateways agree. Pure; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "policy/mix.hpp"

namespace weir::policy::comparison {

// `share` of all identifiers, in [0, 1].
constexpr bool is_sampled(std::string_view request_id, std::uint64_t seed, double share) noexcept {
  std::uint64_t sum = mix(seed);
  for (const char c : request_id) sum = mix(sum ^ static_cast<unsigned char>(c));
  return mixed_unit(sum) < share;
}

}  // namespace weir::policy::comparison
