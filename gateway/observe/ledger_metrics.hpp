// The ledger's own counts as metric families. Pure; any thread.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "gateway/ledger/types.hpp"

namespace weir::gateway::observe {

std::vector<prometheus::MetricFamily> ledger_families(const ledger::ledger_counters& counts,
                                                      const ledger::health_report& health);

}  // namespace weir::gateway::observe
