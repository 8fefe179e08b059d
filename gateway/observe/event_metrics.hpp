// What a gateway has heard of its targets' caches, as metric families. Pure; any thread.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "gateway/route/services.hpp"

namespace weir::gateway::observe {

// Series of targets that have KV events, and the size of the index that all targets share.
std::vector<prometheus::MetricFamily> event_families(
    const std::vector<route::services::followed_events>& targets, const prefix_index::index_stats& index);

}  // namespace weir::gateway::observe
