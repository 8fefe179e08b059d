#include "gateway/observe/event_metrics.hpp"

#include <cstdint>
#include <utility>

#include "gateway/observe/metric_family.hpp"

namespace weir::gateway::observe {

namespace {

using route::services;
using enum prometheus::MetricType;

struct column {
  const char* name;
  const char* help;
  std::uint64_t (*value)(const kv_events::event_figures&);
};

constexpr column k_columns[] = {
    {"weir_kv_batches_received_total", "Batches of KV events of the target that the index took up",
     [](const kv_events::event_figures& f) { return f.batches.load(); }},
    {"weir_kv_gaps_total", "Times that batches of the target were missed",
     [](const kv_events::event_figures& f) { return f.gaps.load(); }},
    {"weir_kv_restarts_total", "Times that the target's cache was found to have begun anew",
     [](const kv_events::event_figures& f) { return f.restarts.load(); }},
};

prometheus::MetricFamily blocks_family(const std::vector<services::followed_events>& targets) {
  prometheus::MetricFamily out{.name = "weir_kv_blocks_total",
                               .help = "Blocks that the target said to have stored and removed",
                               .type = Counter,
                               .metric = {}};
  for (const auto& t : targets) {
    for (const auto& [what, count] : {std::pair("stored", t.figures->blocks_stored.load()),
                                      std::pair("removed", t.figures->blocks_removed.load())}) {
      add(out, {{"target", t.target}, {"what", what}}, static_cast<double>(count));
    }
  }
  return out;
}

// Of replays asked for; an engine in this process needs none.
prometheus::MetricFamily replays_family(const std::vector<services::followed_events>& targets) {
  prometheus::MetricFamily out{.name = "weir_kv_replays_total",
                               .help = "Replays of missed batches that were asked for, and that failed",
                               .type = Counter,
                               .metric = {}};
  for (const auto& t : targets) {
    if (!t.status) continue;
    for (const auto& [what, count] : {std::pair("asked", t.status->replays.load()),
                                      std::pair("failed", t.status->replays_failed.load())}) {
      add(out, {{"target", t.target}, {"what", what}}, static_cast<double>(count));
    }
  }
  return out;
}

prometheus::MetricFamily connected_family(const std::vector<services::followed_events>& targets) {
  prometheus::MetricFamily out{.name = "weir_kv_connected",
                               .help = "1 while the target's KV events can be heard",
                               .type = Gauge,
                               .metric = {}};
  for (const auto& t : targets) {
    const bool heard = !t.status || (t.status->is_connected.load() && !t.status->is_refused.load());
    add(out, {{"target", t.target}}, heard ? 1 : 0);
  }
  return out;
}

}  // namespace

std::vector<prometheus::MetricFamily> event_families(const std::vector<services::followed_events>& targets,
                                                     const prefix_index::index_stats& index) {
  std::vector<prometheus::MetricFamily> out;
  if (!targets.empty()) {
    for (const auto& c : k_columns) {
      prometheus::MetricFamily one{.name = c.name, .help = c.help, .type = Counter, .metric = {}};
      for (const auto& t : targets)
        add(one, {{"target", t.target}}, static_cast<double>(c.value(*t.figures)));
      out.push_back(std::move(one));
    }
    for (auto one : {connected_family(targets), blocks_family(targets), replays_family(targets)})
      if (!one.metric.empty()) out.push_back(std::move(one));
  }
  const auto gauge = [&out](const char* name, const char* help, std::uint64_t value) {
    out.push_back(family(name, help, Gauge, static_cast<double>(value)));
  };
  gauge("weir_index_keys", "Prompt units that the index knows", index.keys);
  gauge("weir_index_entries", "Pages and checkpoints of targets that the index holds", index.entries);
  gauge("weir_index_bytes", "Memory that the index takes", index.bytes);
  return out;
}

}  // namespace weir::gateway::observe
