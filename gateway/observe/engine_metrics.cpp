#include "gateway/observe/engine_metrics.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "gateway/observe/metric_family.hpp"

namespace weir::gateway::observe {

namespace {

using engine::monitor::expert_layer;
using engine::monitor::histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;
using readings = std::span<const engine_reading>;

constexpr double k_ns_per_s = 1e9;
constexpr std::array<const char*, engine::monitor::k_step_phases> k_phases{"prefill", "decode", "mixed"};
constexpr std::array<const char*, 4> k_ends{"stop", "length", "cancelled", "failed"};  // by finish_reason

double number(auto value) {
  return static_cast<double>(value);
}

MetricFamily empty(const char* name, const char* help, MetricType type) {
  return {.name = name, .help = help, .type = type, .metric = {}};
}

// One series for each engine.
MetricFamily each(const char* name, const char* help, MetricType type, readings engines, auto value_of) {
  MetricFamily out = empty(name, help, type);
  for (const auto& e : engines) add(out, {{"target", e.target}}, number(value_of(e)));
  return out;
}

// Series by one more label.
MetricFamily kinds(const char* name, const char* help, MetricType type, const char* label, readings engines,
                   auto list_of) {
  MetricFamily out = empty(name, help, type);
  for (const auto& e : engines) {
    for (const auto& [kind, value] : list_of(e)) {
      add(out, {{"target", e.target}, {label, kind}}, number(value));
    }
  }
  return out;
}

MetricFamily histograms(const char* name, const char* help, readings engines, auto histogram_of) {
  MetricFamily out = empty(name, help, MetricType::Histogram);
  for (const auto& e : engines) {
    const histogram& h = histogram_of(e.activity);
    add_histogram(out, {{"target", e.target}}, h.bounds(), h.counts(), h.sum_s());
  }
  return out;
}

// Every byte of kv_bytes, by what it is for.
std::array<std::pair<const char*, std::int64_t>, 6> pool_of(const engine_reading& e) {
  const auto& s = e.stats;
  const std::int64_t state = s.state_pages * s.page_bytes;
  return {{{"states", s.state_slots_used * state},
           {"pages", s.kv_pages_used * s.page_bytes},
           {"cached_states", s.checkpoints * state},
           {"cached_pages", s.kv_pages_cached * s.page_bytes},
           {"free", s.kv_pages_free * s.page_bytes},
           {"remainder", s.kv_bytes - s.kv_pages_total * s.page_bytes}}};
}

void add_memory(std::vector<MetricFamily>& out, readings engines) {
  const auto gauge = MetricType::Gauge;
  out.push_back(
      kinds("weir_engine_pool_bytes",
            "The memory pool by use; all kinds together are kv_bytes, of which the remainder is too "
            "small for a state",
            gauge, "kind", engines, pool_of));
  out.push_back(each("weir_engine_page_bytes", "Bytes of one attention page", gauge, engines,
                     [](const auto& e) { return e.stats.page_bytes; }));
  out.push_back(each("weir_engine_state_bytes", "Bytes that one recurrent state takes of the pool", gauge,
                     engines, [](const auto& e) { return e.stats.state_pages * e.stats.page_bytes; }));
  out.push_back(each("weir_engine_weight_bytes", "Bytes of the model's weights", gauge, engines,
                     [](const auto& e) { return e.weight_bytes; }));
  out.push_back(kinds(
      "weir_engine_sequences", "Sequences, by what they do", gauge, "state", engines, [](const auto& e) {
        return std::array{std::pair("running", e.stats.running), std::pair("waiting", e.stats.waiting)};
      }));
  out.push_back(each("weir_engine_sequences_max", "Sequences that may run at once", gauge, engines,
                     [](const auto& e) { return e.stats.state_slots_total; }));
  out.push_back(each("weir_engine_checkpoints", "Recurrent states in the prefix cache", gauge, engines,
                     [](const auto& e) { return e.stats.checkpoints; }));
}

void add_totals(std::vector<MetricFamily>& out, readings engines) {
  const auto counter = MetricType::Counter;
  out.push_back(kinds("weir_engine_tokens_total",
                      "Tokens of prompts computed, of answers, and computed again after a preemption",
                      counter, "kind", engines, [](const auto& e) {
                        return std::array{std::pair("prompt", e.stats.prompt_tokens),
                                          std::pair("generated", e.stats.generated_tokens),
                                          std::pair("recomputed", e.stats.recomputed_tokens)};
                      }));
  out.push_back(kinds("weir_engine_cached_tokens_total",
                      "Prompt tokens not computed, by why the checkpoint was kept from which they came",
                      counter, "kind", engines, [](const auto& e) {
                        return std::array{std::pair("prompt_end", e.stats.cached_prompt_end),
                                          std::pair("junction", e.stats.cached_junction),
                                          std::pair("hint", e.stats.cached_hint),
                                          std::pair("interval", e.stats.cached_interval)};
                      }));
  out.push_back(each("weir_engine_checkpoints_stored_total", "Recurrent states put into the prefix cache",
                     counter, engines, [](const auto& e) { return e.stats.checkpoints_stored; }));
  out.push_back(each("weir_engine_checkpoints_evicted_total", "Recurrent states that made room", counter,
                     engines, [](const auto& e) { return e.stats.evictions; }));
  out.push_back(each("weir_engine_preemptions_total",
                     "Running sequences that gave up their memory and are computed again", counter, engines,
                     [](const auto& e) { return e.stats.preemptions; }));
  out.push_back(kinds("weir_engine_sequences_ended_total", "Sequences, by how they ended", counter, "how",
                      engines, [](const auto& e) {
                        std::array<std::pair<const char*, std::uint64_t>, k_ends.size()> list;
                        for (std::size_t i = 0; i < list.size(); ++i)
                          list[i] = {k_ends[i], e.activity.ended[i]};
                        return list;
                      }));
}

// Whether the model has such an operation.
bool is_used(const engine::monitor::engine_activity& of, std::size_t op) {
  return std::ranges::any_of(of.phases, [op](const auto& phase) { return phase.ops.calls[op] > 0; });
}

void add_times(std::vector<MetricFamily>& out, readings engines) {
  MetricFamily steps = empty("weir_engine_step_seconds",
                             "Steps, by whether they computed prompts, next tokens of answers, or both",
                             MetricType::Histogram);
  MetricFamily tokens =
      empty("weir_engine_step_tokens_total", "Tokens that steps computed", MetricType::Counter);
  MetricFamily read =
      empty("weir_engine_experts_read_total",
            "Different experts that steps sent tokens to, of all layers together", MetricType::Counter);
  MetricFamily operators = empty("weir_engine_operator_seconds_total",
                                 "Time of steps in each operation of the layer stack", MetricType::Counter);
  for (const auto& e : engines) {
    for (std::size_t p = 0; p < k_phases.size(); ++p) {
      const auto& phase = e.activity.phases[p];
      const metric_labels labels{{"target", e.target}, {"phase", k_phases[p]}};
      add_histogram(steps, labels, phase.step_s.bounds(), phase.step_s.counts(), phase.step_s.sum_s());
      add(tokens, labels, number(phase.tokens));
      if (!e.activity.experts.empty()) add(read, labels, number(phase.ops.experts_read));
      for (std::size_t i = 0; i < kernels::k_ops; ++i) {
        if (!is_used(e.activity, i)) continue;
        auto of = labels;
        of.push_back({"operator", std::string(kernels::to_text(static_cast<kernels::op>(i)))});
        add(operators, std::move(of), number(phase.ops.ns[i]) / k_ns_per_s);
      }
    }
  }
  for (auto* f : {&steps, &tokens, &read, &operators}) out.push_back(std::move(*f));
  out.push_back(histograms(
      "weir_engine_queue_seconds", "From a sequence's arrival until it first ran", engines,
      [](const auto& a) -> auto& { return a.queue_s; }));
  out.push_back(histograms(
      "weir_engine_first_token_seconds", "From a sequence's arrival to its first token", engines,
      [](const auto& a) -> auto& { return a.first_token_s; }));
  out.push_back(histograms(
      "weir_engine_token_gap_seconds", "Between tokens of a sequence", engines,
      [](const auto& a) -> auto& { return a.token_gap_s; }));
  out.push_back(histograms(
      "weir_engine_sequence_seconds", "From a sequence's arrival to its whole answer", engines,
      [](const auto& a) -> auto& { return a.request_s; }));
}

void add_experts(std::vector<MetricFamily>& out, readings engines) {
  MetricFamily tokens =
      empty("weir_engine_expert_tokens_total", "Tokens sent to experts of a layer, one count for each expert",
            MetricType::Counter);
  MetricFamily imbalance =
      empty("weir_engine_expert_imbalance",
            "Recent tokens of a layer's busiest expert over the mean of its experts", MetricType::Gauge);
  MetricFamily busiest = empty("weir_engine_expert_busiest", "The number of that expert", MetricType::Gauge);
  MetricFamily by_expert =
      empty("weir_engine_tokens_by_expert_total", "Tokens sent to each expert", MetricType::Counter);
  for (const auto& e : engines) {
    const bool each_expert = e.by_expert && expert_series_of(e.activity) <= k_expert_series_max;
    for (const expert_layer& layer : e.activity.experts) {
      const metric_labels labels{{"target", e.target}, {"layer", std::to_string(layer.layer)}};
      const auto sum = std::accumulate(layer.tokens.begin(), layer.tokens.end(), std::uint64_t{0});
      add(tokens, labels, number(sum));
      if (layer.busiest >= 0) {
        add(imbalance, labels, layer.imbalance);
        add(busiest, labels, layer.busiest);
      }
      for (std::size_t i = 0; each_expert && i < layer.tokens.size(); ++i) {
        auto of = labels;
        of.push_back({"expert", std::to_string(i)});
        add(by_expert, std::move(of), number(layer.tokens[i]));
      }
    }
  }
  for (auto* f : {&tokens, &imbalance, &busiest, &by_expert}) {
    if (!f->metric.empty()) out.push_back(std::move(*f));
  }
}

}  // namespace

std::size_t expert_series_of(const engine::monitor::engine_activity& activity) {
  std::size_t out = 0;
  for (const auto& layer : activity.experts) out += layer.tokens.size();
  return out;
}

std::vector<MetricFamily> engine_families(readings engines) {
  std::vector<MetricFamily> out;
  if (engines.empty()) return out;
  add_memory(out, engines);
  add_totals(out, engines);
  add_times(out, engines);
  add_experts(out, engines);
  return out;
}

}  // namespace weir::gateway::observe
