#include <fmt/format.h>

#include "gateway/admin/key_json.hpp"
#include "gateway/api/endpoints.hpp"
#include "gateway/observe/ledger_metrics.hpp"

namespace weir::gateway::api {

task<void> serve_health(request_context& context) {
  http::reply reply{.body = R"({"status":"ok"})"};
  co_await context.exchange.send(std::move(reply));
}

task<void> serve_ready(request_context& context) {
  http::reply reply{.body = R"({"status":"ready"})"};
  const auto* money = context.state.keys.money.get();
  const std::string_view reason = money == nullptr ? "" : admin::health_word(money->health());
  if (!reason.empty()) {
    reply.body = fmt::format(R"({{"status":"degraded","reason":"ledger {}"}})", reason);
  }
  if (context.state.draining) reply = {.status = 503, .body = R"({"status":"draining"})"};
  co_await context.exchange.send(std::move(reply));
}

task<void> serve_metrics(request_context& context) {
  for (const auto& [name, engine] : context.snap->engines) {
    const auto s = engine->stats();
    context.state.metrics.set_engine({.target = name,
                                      .running = static_cast<double>(s.running),
                                      .waiting = static_cast<double>(s.waiting),
                                      .kv_pages_used = static_cast<double>(s.kv_pages_used),
                                      .kv_pages_total = static_cast<double>(s.kv_pages_total),
                                      .state_slots_used = static_cast<double>(s.state_slots_used),
                                      .state_slots_total = static_cast<double>(s.state_slots_total),
                                      .prompt_tokens = static_cast<double>(s.prompt_tokens),
                                      .generated_tokens = static_cast<double>(s.generated_tokens)});
  }
  std::vector<prometheus::MetricFamily> more;
  if (const auto* money = context.state.keys.money.get()) {
    more = observe::ledger_families(money->count(), money->health());
  }
  http::reply reply{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                    .body = context.state.metrics.text(std::move(more))};
  co_await context.exchange.send(std::move(reply));
}

}  // namespace weir::gateway::api
