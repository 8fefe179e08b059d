// Families of counters and gauges for figures that others keep and a scrape only reads. Pure; any thread.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

namespace weir::gateway::observe {

inline void add(prometheus::MetricFamily& to, std::vector<prometheus::ClientMetric::Label> labels,
                double value) {
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  (to.type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  to.metric.push_back(std::move(metric));
}

// With one series.
inline prometheus::MetricFamily family(const char* name, const char* help, prometheus::MetricType type,
                                       double value,
                                       std::vector<prometheus::ClientMetric::Label> labels = {}) {
  prometheus::MetricFamily out{.name = name, .help = help, .type = type, .metric = {}};
  add(out, std::move(labels), value);
  return out;
}

}  // namespace weir::gateway::observe
