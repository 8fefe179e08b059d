// What embedded engines do and hold, as families of metrics: pool, cache, steps, operations, experts,
// latencies. A scrape reads them; nothing is kept here. Pure; any thread.
//
// Labels are the targets' names and fixed sets, besides `layer` and `expert`: numbers of the model. The
// latter only where it was asked for, and at most k_expert_series_max series of an engine.
#pragma once

#include <prometheus/metric_family.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.hpp"

namespace weir::gateway::observe {

// Of one scrape, which routers read up to 4 MiB of. Kimi-Linear has 6,656; Kimi K3's 82,432 are too many.
inline constexpr std::size_t k_expert_series_max = 32'768;

std::size_t expert_series_of(const engine::monitor::engine_activity& activity);

struct engine_reading {
  std::string target;
  engine::engine_stats stats;
  engine::monitor::engine_activity activity;
  std::int64_t weight_bytes = 0;
  bool by_expert = false;
};

std::vector<prometheus::MetricFamily> engine_families(std::span<const engine_reading> engines);

}  // namespace weir::gateway::observe
