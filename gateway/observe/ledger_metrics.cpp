#include "gateway/observe/ledger_metrics.hpp"

#include "gateway/observe/metric_family.hpp"
#include "policy/limits/money.hpp"

namespace weir::gateway::observe {

std::vector<prometheus::MetricFamily> ledger_families(const ledger::ledger_counters& counts,
                                                      const ledger::health_report& health) {
  using enum prometheus::MetricType;
  const auto number = [](auto value) { return static_cast<double>(value); };
  constexpr double k_us_per_s = 1e6;
  return {
      family("weir_ledger_healthy", "1 while the ledger takes reservations and keys", Gauge,
             health.reason ? 0 : 1),
      family("weir_ledger_commits_total", "Batches on the disk, one fsync each", Counter,
             number(counts.commits)),
      family("weir_ledger_operations_total", "Reservations, settlements and changes of keys in them", Counter,
             number(counts.operations)),
      family("weir_ledger_reservations_open", "Reservations of running requests", Gauge,
             number(counts.reservations_open)),
      family("weir_ledger_operations_waiting", "Operations that wait for the next batch", Gauge,
             number(counts.operations_waiting)),
      family("weir_ledger_refused_total", "Reservations that a budget had no room for", Counter,
             number(counts.refused_budget)),
      family("weir_ledger_overruns_total", "Settlements above what was reserved", Counter,
             number(counts.overruns)),
      family("weir_ledger_overrun_usd_total", "By how much, in sum", Counter,
             number(counts.overrun) / number(policy::limits::k_usd)),
      family("weir_ledger_pairs", "Pairs of shadow comparisons that are kept", Gauge, number(counts.pairs)),
      family("weir_ledger_pairs_dropped_total", "Pairs that were not kept", Counter,
             number(counts.pairs_dropped)),
      family("weir_ledger_full_disk_total", "Times that the disk was found full", Counter,
             number(counts.full_disk)),
      family("weir_ledger_last_commit_seconds", "What the last batch took", Gauge,
             number(counts.last_commit_us) / k_us_per_s),
  };
}

}  // namespace weir::gateway::observe
