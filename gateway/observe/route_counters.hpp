// The counters of routing, resolved once so that a request costs additions. Any thread.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <array>
#include <cstddef>
#include <string_view>

#include "policy/failover/failure.hpp"

namespace weir::gateway::observe {

inline constexpr std::array<std::string_view, 3> k_keyed_how{"tokens", "text", "none"};

// A queue that is full; one that is too long for this request; one that got too long for it; and no target
// in time.
inline constexpr std::array<std::string_view, 4> k_shed_why{"queue_full", "too_late", "hopeless",
                                                            "timed_out"};
enum class shed_why : std::uint8_t { queue_full, too_late, hopeless, timed_out };

struct route_counters {
  std::array<prometheus::Counter*, k_keyed_how.size()> keyed{};  // requests, by how their prompt was keyed
  prometheus::Counter* prompt_tokens = nullptr;     // of requests whose replica said what it reused
  prometheus::Counter* predicted_tokens = nullptr;  // reuse predicted for them
  prometheus::Counter* cached_tokens = nullptr;     // and reported
  prometheus::Counter* error_tokens = nullptr;      // |predicted - reported|
  prometheus::Counter* waited = nullptr;            // requests that waited for a target to get free
  prometheus::Gauge* waiting = nullptr;             // those that do now
  std::array<prometheus::Counter*, k_shed_why.size()> shed{};                      // refused because of those
  std::array<prometheus::Counter*, policy::failover::k_failure_kinds> failures{};  // of attempts, by kind
  prometheus::Counter* retries = nullptr;         // attempts behind the first
  prometheus::Counter* hedges = nullptr;          // attempts beside the first
  prometheus::Counter* hedges_won = nullptr;      // that had the first content
  prometheus::Counter* retries_denied = nullptr;  // by their budgets
  prometheus::Counter* hedges_denied = nullptr;
  prometheus::Histogram* decision_s = nullptr;  // identifying the prompt, look-up and choice
};

// What is read of one target's load.
struct scrape_counters {
  prometheus::Counter* ok = nullptr;
  prometheus::Counter* failed = nullptr;
  prometheus::Gauge* running = nullptr;  // as it last said
  prometheus::Gauge* waiting = nullptr;
  prometheus::Gauge* waiting_uncached_tokens = nullptr;
  prometheus::Gauge* capacity_tokens = nullptr;
};

}  // namespace weir::gateway::observe
