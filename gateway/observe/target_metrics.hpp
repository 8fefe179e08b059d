// How targets stand now, as metric families. Pure; any thread.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

namespace weir::gateway::observe {

struct target_standing {
  std::string name;
  bool usable = false;  // ready, with a key that is accepted, and not left alone because of failures
  double running = 0;   // of this gateway's requests
  double pending_prefill_tokens = 0;
  double prefill_tokens_per_s = 0;  // as learnt
};

std::vector<prometheus::MetricFamily> target_families(const std::vector<target_standing>& targets);

}  // namespace weir::gateway::observe
