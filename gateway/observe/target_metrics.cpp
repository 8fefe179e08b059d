#include "gateway/observe/target_metrics.hpp"

#include <utility>

#include "gateway/observe/metric_family.hpp"

namespace weir::gateway::observe {

namespace {

// Those that are known.
prometheus::MetricFamily account_family(const std::vector<target_standing>& targets) {
  prometheus::MetricFamily out{
      .name = "weir_target_account_used",
      .help =
          "Share of an account of the target that is taken: memory by weights and by runtime, slots of "
          "recurrent state, context, what is kept for replication, seconds of transfer",
      .type = prometheus::MetricType::Gauge,
      .metric = {}};
  for (const auto& t : targets) {
    for (int i = 0; i < policy::k_accounts; ++i) {
      const auto of = static_cast<policy::account>(i);
      const double used = policy::used_share(t.accounts, of);
      if (used >= 0) add(out, {{"account", std::string(policy::to_text(of))}, {"target", t.name}}, used);
    }
  }
  return out;
}

prometheus::MetricFamily turned_away_family(const std::vector<target_standing>& targets) {
  prometheus::MetricFamily out{
      .name = "weir_target_turned_away_total",
      .help = "Requests that went elsewhere since an account of the target had no room",
      .type = prometheus::MetricType::Counter,
      .metric = {}};
  for (const auto& t : targets) {
    if (t.accounts.slots == 0 && t.accounts.context_tokens == 0) continue;
    const std::pair<const char*, std::uint64_t> rows[] = {{"no_state_slot", t.no_state_slot},
                                                          {"no_context_pages", t.no_context_pages},
                                                          {"kept_for_replication", t.kept_for_replication}};
    for (const auto& [why, count] : rows) {
      add(out, {{"target", t.name}, {"why", why}}, static_cast<double>(count));
    }
  }
  return out;
}

// Of classes that had any.
std::vector<prometheus::MetricFamily> result_families(const std::vector<target_standing>& targets) {
  using totals = policy::outcome_estimator::totals;
  struct column {
    const char* name;
    const char* help;
    prometheus::MetricType type;
    double (*value)(const totals&);
  };
  using enum prometheus::MetricType;
  static constexpr column k_columns[] = {
      {"weir_target_results_total", "Attempts that came to an end of the target's making, by prompt size",
       Counter, [](const totals& t) { return static_cast<double>(t.results); }},
      {"weir_target_results_accepted_total", "Of them, those that came whole and within the latency contract",
       Counter, [](const totals& t) { return static_cast<double>(t.accepted); }},
      {"weir_target_usd_per_accepted_result", "What they all cost, by accepted ones", Gauge,
       [](const totals& t) { return t.usd_per_accepted(); }},
  };
  std::vector<prometheus::MetricFamily> out;
  for (const auto& c : k_columns) {
    prometheus::MetricFamily family{.name = c.name, .help = c.help, .type = c.type, .metric = {}};
    for (const auto& t : targets) {
      for (std::size_t i = 0; i < t.results.size(); ++i) {
        if (t.results[i].results == 0) continue;
        const auto of = static_cast<policy::request_class>(i);
        add(family, {{"class", std::string(policy::to_text(of))}, {"target", t.name}}, c.value(t.results[i]));
      }
    }
    if (!family.metric.empty()) out.push_back(std::move(family));
  }
  return out;
}

}  // namespace

std::vector<prometheus::MetricFamily> trace_families(const trace::tracer& of) {
  if (!of.to) return {};
  prometheus::MetricFamily out{.name = "weir_trace_spans_total",
                               .help = "Spans of requests, by whether the collector took them",
                               .type = prometheus::MetricType::Counter,
                               .metric = {}};
  const auto& counts = of.to->counts();
  for (const auto& [outcome, count] :
       {std::pair{"sent", counts.sent.load()}, {"dropped", counts.dropped.load()}}) {
    add(out, {{"outcome", outcome}}, static_cast<double>(count));
  }
  return {out};
}

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
    for (const auto& t : targets) add(family, {{"target", t.name}}, c.value(t));
    out.push_back(std::move(family));
  }
  for (auto more : {account_family(targets), turned_away_family(targets)}) {
    if (!more.metric.empty()) out.push_back(std::move(more));
  }
  for (auto& more : result_families(targets)) out.push_back(std::move(more));
  return out;
}

}  // namespace weir::gateway::observe
