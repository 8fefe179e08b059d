// The counters of limits shared through Redis, resolved once. Any thread.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir::gateway::observe {

inline constexpr std::array<std::string_view, 3> k_leased_what{"requests", "tokens", "usd"};
inline constexpr std::array<std::string_view, 3> k_shared_failures{"connect", "command", "wait"};
enum class shared_failure : std::uint8_t { connect, command, wait };

struct shared_counters {
  prometheus::Gauge* up = nullptr;                                  // 1: the store answers
  prometheus::Counter* commands = nullptr;                          // sent to it
  std::array<prometheus::Counter*, k_leased_what.size()> leased{};  // units granted to this gateway
  prometheus::Counter* waits = nullptr;                             // of requests for an answer of the store
  std::array<prometheus::Counter*, k_shared_failures.size()> failures{};
  prometheus::Counter* epochs = nullptr;  // times that the store was found to have lost what it knew
};

}  // namespace weir::gateway::observe
