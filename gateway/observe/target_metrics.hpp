// How targets stand now, as metric families. Pure; any thread.
#pragma once

#include <prometheus/metric_family.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "gateway/trace/request_trace.hpp"
#include "policy/accounts.hpp"
#include "policy/outcomes.hpp"

namespace weir::gateway::observe {

struct target_standing {
  std::string name;
  bool usable = false;  // ready, with a key that is accepted, and not left alone because of failures
  double running = 0;   // of this gateway's requests
  double pending_prefill_tokens = 0;
  double prefill_tokens_per_s = 0;  // as learnt
  policy::account_view accounts;
  // Requests that went elsewhere since an account had no room.
  std::uint64_t no_state_slot = 0;
  std::uint64_t no_context_pages = 0;
  std::uint64_t kept_for_replication = 0;
  std::array<policy::outcome_estimator::totals, policy::k_request_classes> results;
};

// What became of spans. Empty where there are none.
std::vector<prometheus::MetricFamily> trace_families(const trace::tracer& of);

std::vector<prometheus::MetricFamily> target_families(const std::vector<target_standing>& targets);

}  // namespace weir::gateway::observe
