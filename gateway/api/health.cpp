#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "gateway/admin/key_json.hpp"
#include "gateway/api/endpoints.hpp"
#include "gateway/api/json.hpp"
#include "gateway/kv_events/publisher.hpp"
#include "gateway/observe/engine_metrics.hpp"
#include "gateway/observe/event_metrics.hpp"
#include "gateway/observe/ledger_metrics.hpp"
#include "gateway/observe/metric_family.hpp"
#include "gateway/observe/target_metrics.hpp"
#include "gateway/observe/vllm_metrics.hpp"
#include "gateway/route/model_router.hpp"

namespace weir::gateway::api {

task<void> serve_health(request_context& context) {
  http::reply reply{.body = R"({"status":"ok"})"};
  if (const auto why = replica_fault(*context.snap); !why.empty()) {
    reply = {.status = 503, .body = R"({"status":"failed","reason":)"};
    append_quoted(reply.body, why);
    reply.body += "}";
  }
  co_await context.exchange.send(std::move(reply));
}

namespace {

// What the gateway itself cannot mend, in words; empty: nothing. It stays ready: another gateway would meet
// the same.
std::string degraded_by(const request_context& context) {
  const auto* money = context.state.keys.money.get();
  const std::string_view ledger = money == nullptr ? "" : admin::health_word(money->health());
  if (!ledger.empty()) return fmt::format("ledger {}", ledger);
  for (const auto& model : context.snap->models) {
    std::size_t usable = 0;
    for (std::size_t i = 0; i < model->router->targets().size(); ++i) usable += model->router->is_usable(i);
    if (usable == 0) return fmt::format("no target of model '{}' is usable", model->name);
  }
  return {};
}

std::vector<observe::target_standing> standings(const snapshot& snap) {
  std::vector<observe::target_standing> out;
  std::set<std::string_view> seen;
  for (const auto& model : snap.models) {
    const auto views = model->router->views();
    for (std::size_t i = 0; i < views.size(); ++i) {
      if (!seen.insert(views[i].name).second) continue;
      const auto away = model->router->targets()[i].state->turned_away();
      out.push_back({.name = std::string(views[i].name),
                     .usable = model->router->is_usable(i),
                     .running = static_cast<double>(views[i].load.running),
                     .pending_prefill_tokens = views[i].load.pending_prefill_tokens,
                     .prefill_tokens_per_s = views[i].speed.prefill_tokens_per_s,
                     .accounts = views[i].accounts,
                     .no_state_slot = away.no_state_slot,
                     .no_context_pages = away.no_context_pages,
                     .kept_for_replication = away.kept_for_replication,
                     .results = model->router->targets()[i].state->results()});
    }
  }
  return out;
}

}  // namespace

task<void> serve_ready(request_context& context) {
  http::reply reply{.body = R"({"status":"ready"})"};
  if (const auto reason = degraded_by(context); !reason.empty()) {
    reply.body = R"({"status":"degraded","reason":)";
    append_quoted(reply.body, reason);
    reply.body += "}";
  }
  if (context.state.draining) reply = {.status = 503, .body = R"({"status":"draining"})"};
  co_await context.exchange.send(std::move(reply));
}

namespace {

std::vector<observe::engine_reading> readings(const snapshot& snap) {
  std::vector<observe::engine_reading> out;
  for (const auto& target : snap.config.targets) {
    const auto engine = snap.engines.find(target.name);
    if (engine == snap.engines.end()) continue;
    out.push_back({.target = target.name,
                   .stats = engine->second.target->stats(),
                   .activity = engine->second.target->activity(),
                   .weight_bytes = engine->second.target->model().weight_bytes,
                   .by_expert = target.expert_series});
  }
  return out;
}

std::string metrics_text(const request_context& context, std::vector<prometheus::MetricFamily> more) {
  auto engines = observe::engine_families(readings(*context.snap));
  std::move(engines.begin(), engines.end(), std::back_inserter(more));
  if (const auto* money = context.state.keys.money.get()) {
    auto ledger = observe::ledger_families(money->count(), money->health());
    std::move(ledger.begin(), ledger.end(), std::back_inserter(more));
  }
  auto spans = observe::trace_families(context.snap->tracing);
  std::move(spans.begin(), spans.end(), std::back_inserter(more));
  const auto& routing = context.snap->models.front()->router->shared();
  auto events = observe::event_families(routing.followed(), routing.index().stats());
  std::move(events.begin(), events.end(), std::back_inserter(more));
  auto targets = observe::target_families(standings(*context.snap));
  std::move(targets.begin(), targets.end(), std::back_inserter(more));
  return context.state.metrics.text(std::move(more));
}

std::vector<prometheus::MetricFamily> publisher_families(const kv_events::publisher& of) {
  const auto counts = of.counters();
  const auto counter = [](const char* name, const char* help, std::uint64_t value) {
    return observe::family(name, help, prometheus::MetricType::Counter, static_cast<double>(value));
  };
  return {counter("weir_kv_event_batches_total", "Batches of KV events published", counts.batches),
          counter("weir_kv_events_dropped_total",
                  "KV events that came faster than they could be written, whereupon all was taken back",
                  counts.dropped),
          counter("weir_kv_event_replays_total", "Replays of KV events that were asked for", counts.replays)};
}

constexpr std::string_view k_metrics_type = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace

task<void> serve_metrics(request_context& context) {
  http::reply reply{.content_type = std::string(k_metrics_type), .body = metrics_text(context, {})};
  co_await context.exchange.send(std::move(reply));
}

task<void> serve_replica_metrics(request_context& context) {
  const auto& snap = *context.snap;
  std::vector<prometheus::MetricFamily> more;
  if (snap.events) more = publisher_families(*snap.events);
  const auto& engine = snap.engines.begin()->second.target;  // its only one
  auto engine_families = observe::vllm_families(snap.models.front()->name, engine->stats(),
                                                engine->activity(), engine::engine_config().page_tokens);
  std::move(engine_families.begin(), engine_families.end(), std::back_inserter(more));
  http::reply reply{.content_type = std::string(k_metrics_type),
                    .body = metrics_text(context, std::move(more))};
  co_await context.exchange.send(std::move(reply));
}

}  // namespace weir::gateway::api
