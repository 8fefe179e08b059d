#include "gateway/observe/target_metrics.hpp"

namespace weir::gateway::observe {

std::vector<prometheus::MetricFamily> target_families(const std::vector<target_standing>& targets) {
  struct column {
    const char* name;
    const char* help;
    double (*value)(const target_standing&);
  };
  static constexpr column k_columns[] = {
      {"weir_target_usable",
       "1 while requests may go to the target: it is ready and has not failed too often",
       [](const target_standing& t) { return t.usable ? 1.0 : 0.0; }},
      {"weir_target_running", "Requests of this gateway at the target",
       [](const target_standing& t) { return t.running; }},
      {"weir_target_pending_prefill_tokens", "Work of those of them that have no first token yet",
       [](const target_standing& t) { return t.pending_prefill_tokens; }},
      {"weir_target_prefill_tokens_per_second", "How fast the target prefills, as learnt",
       [](const target_standing& t) { return t.prefill_tokens_per_s; }},
  };
  std::vector<prometheus::MetricFamily> out;
  for (const auto& c : k_columns) {
    prometheus::MetricFamily family{
        .name = c.name, .help = c.help, .type = prometheus::MetricType::Gauge, .metric = {}};
    for (const auto& t : targets) {
      prometheus::ClientMetric metric;
      metric.label.push_back({"target", t.name});
      metric.gauge.value = c.value(t);
      family.metric.push_back(std::move(metric));
    }
    out.push_back(std::move(family));
  }
  return out;
}

}  // namespace weir::gateway::observe
