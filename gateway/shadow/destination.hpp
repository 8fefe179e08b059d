// Where the copies of one model go, and all that they may use: connections, memory, a rate and a breaker of
// their own, none of which any client's request shares. One per configured copy; taken over by a reload that
// does not change it. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "gateway/config/config.hpp"
#include "gateway/http/byte_budget.hpp"
#include "gateway/limits/ticket.hpp"
#include "gateway/observe/shadow_counters.hpp"
#include "gateway/route/target_health.hpp"
#include "gateway/shadow/field_path.hpp"
#include "gateway/upstream/http_upstream.hpp"
#include "policy/limits/gcra.hpp"

namespace weir::gateway::observe {
class metrics;
}

namespace weir::gateway::shadow {

struct destination {
  destination(const config::shadow_copy_config& copy, std::uint64_t seed_of_choice,
              const policy::failover::breaker_terms& breaking, std::uint64_t seed_of_breaker)
      : terms(copy),
        seed(seed_of_choice),
        memory(static_cast<std::size_t>(copy.memory_bytes)),
        health(breaking, seed_of_breaker) {}

  const config::shadow_copy_config terms;
  const std::uint64_t seed;
  config::http_target_config configured;  // of the target
  std::vector<config::price_tier_config> priced;
  std::vector<field_path> redacted;
  limits::target_prices prices;
  observe::shadow_counters counters;
  mutable http::byte_budget memory;
  mutable policy::limits::gcra_cell rate;
  mutable std::atomic<std::int64_t> in_flight = 0;
  mutable route::target_health health;
  std::shared_ptr<upstream::upstream> target;  // its replies count against `memory`
};

// The error is a sentence for the operator. REQUIRES: a configuration that was checked.
std::expected<std::shared_ptr<const destination>, std::string> make_destination(
    const config::gateway_config& config, const config::shadow_copy_config& copy,
    limits::target_prices prices, upstream::resolver& names, observe::metrics& metrics);

// Whether a reload may go on with it. A target with keys of ours reads them anew.
bool is_same(const destination& old, const config::gateway_config& config,
             const config::shadow_copy_config& copy);

}  // namespace weir::gateway::shadow
