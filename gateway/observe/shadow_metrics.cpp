#include "gateway/observe/metrics.hpp"

namespace weir::gateway::observe {

namespace {

prometheus::Family<prometheus::Counter>& counter(prometheus::Registry& in, const char* name,
                                                 const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(in);
}

}  // namespace

shadow_counters metrics::shadow(const std::string& model, const std::string& target) {
  const prometheus::Labels labels{{"model", model}, {"target", target}};
  auto& in = *registry_;
  shadow_counters out;
  out.sent = &counter(in, "weir_shadow_sent_total", "Copies of requests sent to a shadow target").Add(labels);
  out.pairs = &counter(in, "weir_shadow_pairs_total", "Pairs of answers given to the ledger").Add(labels);
  out.usd = &counter(in, "weir_shadow_cost_usd_total", "What copies cost, where their target has prices")
                 .Add(labels);
  out.in_flight =
      &prometheus::BuildGauge().Name("weir_shadow_in_flight").Help("Copies at work").Register(in).Add(labels);
  auto& dropped = counter(in, "weir_shadow_dropped_total", "Chosen requests without a pair, by why");
  for (std::size_t i = 0; i < k_shadow_drops.size(); ++i) {
    auto why = labels;
    why.emplace("why", std::string(k_shadow_drops[i]));
    out.dropped[i] = &dropped.Add(why);
  }
  return out;
}

}  // namespace weir::gateway::observe
