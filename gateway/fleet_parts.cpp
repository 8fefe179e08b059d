#include "gateway/fleet_parts.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "engine/model/model_config.hpp"
#include "gateway/kv_events/engine_events.hpp"
#include "gateway/observe/engine_metrics.hpp"
#include "gateway/version.hpp"

namespace weir::gateway {

namespace {

constexpr std::int64_t k_permille_per_percent = 10;
constexpr std::int64_t k_dying_targets = 2;
constexpr std::int64_t k_hedge_window_ns = 600'000'000'000;

}  // namespace

std::shared_ptr<policy::failover::share_budget> take_over_retries(const config::failover_config& terms,
                                                                  const snapshot* previous) {
  if (previous != nullptr && previous->config.failover.retry_percent == terms.retry_percent &&
      previous->config.failover.failures == terms.failures) {
    return previous->retries;
  }
  policy::failover::budget_terms budget{.share_permille = terms.retry_percent * k_permille_per_percent};
  // In light traffic two targets that die shall be left alone before the budget is used up.
  budget.units_min = terms.retry_percent == 0 ? 0 : k_dying_targets * terms.failures;
  return std::make_shared<policy::failover::share_budget>(budget);
}

std::shared_ptr<policy::failover::share_budget> take_over_hedges(const config::failover_config& terms,
                                                                 const std::string& model,
                                                                 const snapshot* previous) {
  if (terms.hedge_after_ms == 0) return nullptr;
  const auto* before = previous == nullptr ? nullptr : previous->find_model(model);
  const bool same = before != nullptr && before->hedges != nullptr &&
                    previous->config.failover.hedge_percent == terms.hedge_percent;
  if (same) return before->hedges;
  return std::make_shared<policy::failover::share_budget>(
      policy::failover::budget_terms{.share_permille = terms.hedge_percent * k_permille_per_percent,
                                     .units_min = 0,
                                     .window_ns = k_hedge_window_ns});
}

upstream::engine_upstream_config to_engine_config(const config::target_config& target) {
  upstream::engine_upstream_config out;
  out.name = target.name;
  out.engine.model_dir = target.engine.model_dir;
  out.engine.backend = *engine::backend_kind_of(target.engine.backend);
  out.engine.weights = *engine::weight_format_of(target.engine.weights);
  out.engine.activations = engine::activation_format_of(target.engine.activations);
  out.engine.compute_threads = static_cast<std::int32_t>(target.engine.threads);
  out.engine.sequences_max = static_cast<std::int32_t>(target.engine.sequences);
  out.engine.queue_max = static_cast<std::int32_t>(target.engine.queue);
  out.engine.kv_bytes = target.engine.kv_bytes;
  out.engine.memory_bytes = target.engine.memory_bytes;
  out.engine.decode_stretch = target.engine.decode_stretch;
  out.engine.ranks = {.rank = target.engine.rank,
                      .size = target.engine.ranks,
                      .master_port = target.engine.master_port,
                      .split = *engine::split_kind_of(target.engine.split),
                      .local_rank = target.engine.local_rank,
                      .master_host = target.engine.master_host};
  out.engine.step_tokens_max = static_cast<std::int32_t>(target.engine.step_tokens);
  out.engine.prefix_cache.enabled = target.engine.prefix_cache;
  out.engine.prefix_cache.unit_tokens = static_cast<std::int32_t>(target.engine.unit_tokens);
  out.engine.prefix_cache.spacing_tokens = static_cast<std::int32_t>(target.engine.spacing_tokens);
  out.engine.on_fault = [name = target.name](const std::string& what) {
    spdlog::error("target '{}': {}", name, what);
  };
  return out;
}

config::cache_config own_cache(const config::gateway_config& config, const config::target_config& target,
                               const upstream::engine_upstream& engine,
                               const engine::text::tokenizer& of_prompts) {
  config::cache_config out;
  const auto uses = [&](const config::model_config& m) {
    return std::ranges::count(m.targets, target.name) > 0;
  };
  const auto model = std::ranges::find_if(config.models, uses);
  if (model == config.models.end() || std::ranges::count_if(config.models, uses) > 1) return out;
  const bool any_other = std::ranges::any_of(config.targets, [&](const config::target_config& t) {
    return t.name != target.name && (t.cache.on || !t.is_http) &&
           std::ranges::count(model->targets, t.name) > 0;
  });
  if (!any_other) return out;
  if (config.replica.on || !target.engine.prefix_cache ||
      engine.tools().tokenizer->fingerprint() != of_prompts.fingerprint()) {
    return out;
  }
  const engine::engine_stats has = engine.stats();
  const std::int64_t page_tokens = engine::engine_config().page_tokens;  // nothing sets another
  out.on = true;
  out.capacity_tokens = has.kv_pages_total * page_tokens;
  out.checkpoint_tokens = has.state_pages * page_tokens;
  out.block_tokens = target.engine.unit_tokens;
  out.events = kv_events::k_own_engine;
  return out;
}

void check_expert_series(const config::target_config& target, const upstream::engine_upstream& engine) {
  if (!target.expert_series) return;
  const auto wanted = observe::expert_series_of(engine.activity());
  if (wanted <= observe::k_expert_series_max) return;
  spdlog::warn(
      "target '{}': expert_series: its {} experts of all layers are more than {}: metrics are by layer",
      target.name, wanted, observe::k_expert_series_max);
}

std::expected<trace::tracer, std::string> open_tracer(const config::tracing_config& terms,
                                                      const snapshot* previous, fleet_services& services) {
  if (terms.endpoint.empty()) return trace::tracer{};
  if (previous != nullptr && previous->config.tracing == terms) return previous->tracing;
  config::target_config collector{.name = "tracing", .is_http = true};
  collector.http.base_url = terms.endpoint;
  collector.http.api_key_file = terms.token_file;
  auto origin = upstream::make_origin(collector, trace::k_post_time, services.names, {}, nullptr);
  if (!origin) return std::unexpected(fmt::format("tracing: {}", origin.error()));
  std::string headers;
  if (!(*origin)->keys.empty()) headers = "authorization: Bearer " + (*origin)->keys.front().text + "\r\n";
  trace::resource about{.service_version = k_version, .instance = auth::random_id("")};
  return trace::tracer{.to = std::make_shared<trace::exporter>(std::move(*origin), terms.path,
                                                               std::move(headers), std::move(about)),
                       .sample_share = terms.sample};
}

void tell_context(const config::target_config& target, std::int32_t context_tokens) {
  const auto model = engine::model::load_model_config(target.engine.model_dir);
  if (!model || model->context_tokens <= context_tokens) return;
  spdlog::warn("target '{}': its context is {} tokens of the model's {}: more do not fit kv_bytes, {} bytes",
               target.name, context_tokens, model->context_tokens, target.engine.kv_bytes);
}

}  // namespace weir::gateway
