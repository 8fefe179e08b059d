// Families of metrics for figures that others keep and a scrape only reads. Pure; any thread.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weir::gateway::observe {

using metric_labels = std::vector<prometheus::ClientMetric::Label>;

// A counter or a gauge, as the family is.
inline void add(prometheus::MetricFamily& to, metric_labels labels, double value) {
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  (to.type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  to.metric.push_back(std::move(metric));
}

// With one series.
inline prometheus::MetricFamily family(const char* name, const char* help, prometheus::MetricType type,
                                       double value, metric_labels labels = {}) {
  prometheus::MetricFamily out{.name = name, .help = help, .type = type, .metric = {}};
  add(out, std::move(labels), value);
  return out;
}

// `counts` has one more than `bounds`: what is above all of them.
inline void add_histogram(prometheus::MetricFamily& to, metric_labels labels, std::span<const double> bounds,
                          std::span<const std::uint64_t> counts, double sum) {
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  auto& out = metric.histogram;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    below += counts[i];
    out.bucket.push_back({.cumulative_count = below, .upper_bound = bounds[i]});
  }
  out.sample_count = below + counts.back();
  out.sample_sum = sum;
  to.metric.push_back(std::move(metric));
}

}  // namespace weir::gateway::observe
