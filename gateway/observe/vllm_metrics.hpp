// The embedded engine's load under the names that vLLM has for it, for those who know how to read a vLLM:
// routers (route/load_metrics.hpp), autoscalers, dashboards. Latencies are the engine's own, with vLLM's
// bounds. Pure; any thread.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/engine.hpp"

namespace weir::gateway::observe {

// `model`: as clients ask for it. Shares and sizes are of the one pool: what running sequences hold of it,
// attention pages and recurrent states; what the cache alone holds makes room when it is needed.
std::vector<prometheus::MetricFamily> vllm_families(std::string_view model, const engine::engine_stats& stats,
                                                    const engine::monitor::engine_activity& activity,
                                                    std::int32_t page_tokens);

}  // namespace weir::gateway::observe
