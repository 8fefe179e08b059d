#include "gateway/fleet.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "gateway/config/load.hpp"
#include "gateway/fleet_parts.hpp"
#include "gateway/http/tls_context.hpp"
#include "gateway/kv_events/engine_events.hpp"
#include "gateway/kv_events/publisher.hpp"
#include "gateway/shadow/destination.hpp"

namespace weir::gateway {

namespace {

using engine_map = std::map<std::string, embedded_engine, std::less<>>;
using replica_map = std::map<std::string, http_replica, std::less<>>;

// Names of targets may still be unknown when the first requests come, but not for want of waiting a little.
constexpr std::chrono::seconds k_first_lookup_wait{2};

embedded_engine take_over(const config::target_config& target, const snapshot* previous) {
  if (previous == nullptr) return {};
  for (const auto& old : previous->config.targets) {
    if (!old.is_http && old.name == target.name && old.engine == target.engine)
      return previous->engines.at(old.name);
  }
  return {};
}

using publisher_ptr = std::shared_ptr<kv_events::publisher>;

// Null where nothing is published.
std::expected<publisher_ptr, std::string> open_publisher(const config::replica_config& config) {
  if (config.events.empty()) return nullptr;
  return kv_events::publisher::open({.endpoint = config.events, .replay_endpoint = config.replay});
}

std::expected<engine_map, std::string> open_engines(const config::gateway_config& config,
                                                    const snapshot* previous, const publisher_ptr& events) {
  engine_map engines;
  for (const auto& target : config.targets) {
    if (target.is_http) continue;
    auto engine = take_over(target, previous);
    if (!engine.target) {
      auto options = to_engine_config(target);
      engine.events = std::make_shared<kv_events::engine_events>();
      options.engine.on_cache_events = [own = engine.events](const auto& told) { own->told(told); };
      if (events) options.engine.on_cache_events = [events](const auto& told) { events->publish(told); };
      auto opened = upstream::engine_upstream::open(options);
      if (!opened) {
        const std::string dir = target.engine.model_dir.string();
        const std::string& why = opened.error().detail;
        const bool says_where = why.find(dir) != std::string::npos;
        return std::unexpected(
            fmt::format("target '{}': {}{}", target.name, says_where ? "" : dir + ": ", why));
      }
      engine.target = std::move(*opened);
      tell_context(target, engine.target->model().context_tokens);
    }
    check_expert_series(target, *engine.target);
    engines.emplace(target.name, std::move(engine));
  }
  return engines;
}

upstream::reply_limits reply_limits_of(const config::limits_config& limits) {
  return {.body_bytes = static_cast<std::size_t>(limits.reply_bytes),
          .event_bytes = static_cast<std::size_t>(limits.event_bytes)};
}

// The same target under the same limits goes on, with its connections. A new one reads its key again.
std::optional<http_replica> take_over_replica(const config::target_config& target,
                                              const config::limits_config& limits, const snapshot* previous) {
  if (previous == nullptr || !target.http.api_key_file.empty()) return std::nullopt;
  const auto& old_limits = previous->config.limits;
  if (reply_limits_of(old_limits) != reply_limits_of(limits) ||
      old_limits.write_idle_timeout_ms != limits.write_idle_timeout_ms) {
    return std::nullopt;
  }
  for (const auto& old : previous->config.targets) {
    if (old.is_http && old.name == target.name && old.http == target.http)
      return previous->replicas.at(old.name);
  }
  return std::nullopt;
}

const upstream::origin* origin_of(const config::target_config& target, const snapshot* of) {
  if (of == nullptr) return nullptr;
  const auto found = of->replicas.find(target.name);
  return found == of->replicas.end() ? nullptr : found->second.at.get();
}

std::expected<replica_map, std::string> open_replicas(const config::gateway_config& config,
                                                      const snapshot* previous, fleet_services& services) {
  replica_map replicas;
  std::vector<std::shared_ptr<const upstream::host_addresses>> names;
  for (const auto& target : config.targets) {
    if (!target.is_http) continue;
    auto replica = take_over_replica(target, config.limits, previous);
    if (!replica) {
      const std::chrono::milliseconds write_idle(config.limits.write_idle_timeout_ms);
      auto origin =
          upstream::make_origin(target, write_idle, services.names, services.metrics.upstream(target.name),
                                origin_of(target, previous));
      if (!origin) return std::unexpected(fmt::format("target '{}': {}", target.name, origin.error()));
      names.push_back((*origin)->addresses);
      auto made =
          upstream::make_http_upstream(*origin, reply_limits_of(config.limits), services.reply_budget);
      replica = {std::move(*origin), std::move(made)};
    }
    replicas.emplace(target.name, std::move(*replica));
  }
  const auto deadline = std::chrono::steady_clock::now() + k_first_lookup_wait;
  for (const auto& name : names) name->wait_looked_up(deadline);
  return replicas;
}

policy::policy_kind to_policy(std::string_view name) {
  using policy::policy_kind;
  static constexpr std::pair<std::string_view, policy_kind> k_kinds[] = {
      {"latency", policy_kind::latency},
      {"cost", policy_kind::cost},
      {"least_pending", policy_kind::least_pending},
      {"prefix_greedy", policy_kind::prefix_greedy},
      {"round_robin", policy_kind::round_robin},
      {"random", policy_kind::random},
  };
  for (const auto& [kind_name, kind] : k_kinds) {
    if (kind_name == name) return kind;
  }
  return policy_kind::balanced;
}

route::sharing to_sharing(std::string_view name) {
  if (name == "key") return route::sharing::key;
  return name == "site" ? route::sharing::site : route::sharing::tenant;
}

// So that replicas' events are understood from the first on.
void learn_scopes(const config::gateway_config& config, const auth::key_ring& keys,
                  route::scope_table& scopes) {
  const auto how = to_sharing(config.routing.sharing);
  scopes.learn(auth::loopback_identity(), how);
  const auto learn = [&](const auto& key) {
    scopes.learn({.name = key.name, .tenant = key.tenant}, route::sharing_of(key.terms.sharing, how));
  };
  for (const auto& key : config.auth.keys) learn(key);  // the ring has them once all else is known to hold
  for (const auto& key : keys.all()) learn(key);
}

limits::target_prices to_prices(const config::terms_config& terms) {
  limits::target_prices out;
  const auto convert = [](const std::optional<double>& usd) -> std::optional<policy::limits::usd_pico> {
    if (!usd) return std::nullopt;
    return policy::limits::per_token(*usd);
  };
  for (const auto& tier : terms.prices) {
    out.tiers.push_back({tier.prompt_tokens_min,
                         {.fresh = convert(tier.fresh_usd),
                          .cache_read = convert(tier.cached_usd),
                          .cache_write = convert(tier.cache_write_usd),
                          .output = convert(tier.output_usd)}});
  }
  return out;
}

route::model_terms to_terms(const config::gateway_config& config, const config::model_config& model) {
  const auto& routing = config.routing;
  route::model_terms out{.name = model.name, .shared_by = to_sharing(routing.sharing)};
  out.own_salts = config.replica.on;
  out.how.kind = to_policy(routing.policy);
  out.how.value_of_time_usd_per_s = routing.value_of_time_usd_per_hour / 3600;
  out.how.credit_share = routing.credit;
  out.how.contract = {.ttft_s = static_cast<double>(model.ttft_ms) / 1000,
                      .itl_s = static_cast<double>(model.itl_ms) / 1000};
  out.overflow = {.engine = model.overflow_engine,
                  .hosted = model.overflow_hosted,
                  .hosted_by_score = model.spill_by_cost};
  out.placement.hold_s = static_cast<double>(routing.hold_ms) / 1000;
  out.placement.hold_max_s = static_cast<double>(routing.hold_max_ms) / 1000;
  out.queue.requests_max = static_cast<std::size_t>(config.overload.waiting);
  out.queue.wait_max_s = static_cast<double>(config.overload.wait_ms) / 1000;
  return out;
}

struct prompt_tools {
  std::shared_ptr<const engine::text::tokenizer> tokenizer;
  std::shared_ptr<const engine::text::prompt_renderer> chat;
};

// The configured tokenizer, or that of an embedded engine that answers for the model.
std::expected<prompt_tools, std::string> find_prompt_tools(const config::model_config& model,
                                                           const snapshot& snap) {
  if (!model.tokenizer.empty()) {
    auto tokenizer = engine::text::tokenizer::load(model.tokenizer);
    if (!tokenizer) {
      return std::unexpected(fmt::format("model '{}': models[].tokenizer {}: {}", model.name,
                                         model.tokenizer.string(), tokenizer.error().detail));
    }
    auto chat = engine::text::prompt_renderer::detect(*tokenizer);
    if (!chat) {
      spdlog::warn("model '{}': its chat format is not built in: chats are keyed by their text", model.name);
    }
    return prompt_tools{std::move(*tokenizer), chat ? std::move(*chat) : nullptr};
  }
  for (const auto& target : model.targets) {
    const auto engine = snap.engines.find(target);
    if (engine == snap.engines.end()) continue;
    const auto& tools = engine->second.target->tools();
    return prompt_tools{tools.tokenizer, tools.chat};
  }
  return prompt_tools{};
}

std::expected<std::shared_ptr<model_entry>, std::string> make_entry(const config::model_config& model,
                                                                    const snapshot& snap,
                                                                    fleet_services& services) {
  auto tools = find_prompt_tools(model, snap);
  if (!tools) return std::unexpected(tools.error());
  const auto chains = route::chain_name(model.name, tools->tokenizer.get());
  const auto unit_tokens =
      static_cast<std::uint32_t>(tools->tokenizer ? prefix_index::k_unit_tokens_default
                                                  : k_text_chunk_bytes / k_bytes_per_token_estimate);
  auto entry = std::make_shared<model_entry>();
  entry->name = model.name;
  std::vector<route::routed_target> targets;
  for (const auto& name : model.targets) {
    auto configured = *std::find_if(snap.config.targets.begin(), snap.config.targets.end(),
                                    [&](const auto& t) { return t.name == name; });
    if (!tools->tokenizer && !configured.cache.events.empty()) {
      spdlog::warn(
          "model '{}' has no tokenizer, so that KV events of target '{}' cannot be matched to its prompts: "
          "they are ignored and its cache is predicted; set models[].tokenizer",
          model.name, name);
      configured.cache.events.clear();
    }
    const auto engine = snap.engines.find(name);
    route::services::own_events own;
    if (engine != snap.engines.end()) {
      configured.cache = own_cache(snap.config, configured, *engine->second.target, *tools->tokenizer);
      if (configured.cache.on) own = engine->second.events;
    }
    auto state = services.routing->state_of(configured, chains, unit_tokens, own);
    if (!state) return std::unexpected(state.error());
    std::shared_ptr<upstream::upstream> target;
    if (engine != snap.engines.end()) {
      target = engine->second.target;
    } else {
      target = snap.replicas.at(name).target;
    }
    entry->prices.push_back(to_prices(configured.terms));
    entry->context_tokens = std::max(entry->context_tokens, target->view().context_tokens);
    auto health = services.routing->health_of(configured, snap.config.failover);
    targets.push_back({std::move(target), std::move(*state), std::move(health)});
  }
  auto terms = to_terms(snap.config, model);
  terms.tokenizer = std::move(tools->tokenizer);
  terms.chat = std::move(tools->chat);
  entry->router = std::make_unique<route::model_router>(std::move(terms), std::move(targets),
                                                        snap.config.rules, *services.routing);
  return entry;
}

// Where copies of the model's requests go; null: nowhere.
std::expected<std::shared_ptr<const shadow::destination>, std::string> open_shadow(
    const config::model_config& model, const snapshot& snap, const snapshot* previous,
    fleet_services& services) {
  const auto& config = snap.config;
  const auto& copies = config.shadow.copies;
  const auto copy =
      std::find_if(copies.begin(), copies.end(), [&](const auto& c) { return c.model == model.name; });
  if (copy == copies.end()) return nullptr;
  const auto* const old = previous != nullptr ? previous->find_model(model.name) : nullptr;
  if (old != nullptr && old->shadow && shadow::is_same(*old->shadow, config, *copy)) return old->shadow;
  const auto target = std::find_if(config.targets.begin(), config.targets.end(),
                                   [&](const auto& t) { return t.name == copy->target; });
  return shadow::make_destination(config, *copy, to_prices(target->terms), services.names, services.metrics);
}

std::vector<route::scraped_target> scraped_targets(const snapshot& snap, observe::metrics& metrics) {
  std::map<std::string_view, std::shared_ptr<route::target_state>> states;
  for (const auto& model : snap.models) {
    for (const auto& target : model->router->targets()) states[target.state->name()] = target.state;
  }
  std::vector<route::scraped_target> out;
  for (const auto& target : snap.config.targets) {
    const auto state = states.find(target.name);
    if (!target.is_http || target.terms.metrics_interval_ms == 0 || state == states.end()) continue;
    out.push_back({.at = snap.replicas.at(target.name).at,
                   .state = state->second,
                   .path = target.terms.metrics_path,
                   .interval = std::chrono::milliseconds(target.terms.metrics_interval_ms),
                   .counters = metrics.scrapes(target.name)});
  }
  return out;
}

std::expected<std::optional<auth::admin_key>, std::string> read_admin_key(
    const config::gateway_config& config) {
  const auto& file = config.admin_access.key_file;
  if (file.empty()) return std::nullopt;
  auto key = auth::admin_key::read(file);
  if (!key) return std::unexpected("admin.key_file: " + key.error());
  return std::move(*key);
}

}  // namespace

const model_entry* snapshot::find_model(std::string_view name) const {
  const auto found = model_by_name.find(name);
  return found == model_by_name.end() ? nullptr : found->second.get();
}

std::string check_credentials(const config::gateway_config& config) {
  limits::account_table accounts;
  if (const auto usable = read_admin_key(config); !usable) return usable.error();
  if (const auto usable = auth::key_ring(accounts).configure(config.auth); !usable) return usable.error();
  if (auto why = limits::check_secrets(config.redis); !why.empty()) return why;
  for (const auto& target : config.targets) {
    if (!target.is_http) continue;
    if (const auto usable = upstream::check_credentials(target); !usable) {
      return fmt::format("target '{}': {}", target.name, usable.error());
    }
  }
  const auto& tls = config.listen.tls;
  if (tls.cert_file.empty()) return {};
  const auto usable = http::make_tls_context({tls.cert_file, tls.key_file}, http::make_ticket_keys());
  return usable ? std::string() : usable.error();
}

std::expected<std::shared_ptr<const snapshot>, std::string> build_snapshot(
    const config::gateway_config& config, const snapshot* previous, fleet_services& services) {
  auto admin_key = read_admin_key(config);
  if (!admin_key) return std::unexpected(admin_key.error());
  auto replicas = open_replicas(config, previous, services);
  if (!replicas) return std::unexpected(replicas.error());
  auto events = open_publisher(config.replica);
  if (!events) return std::unexpected(events.error());
  auto engines = open_engines(config, previous, *events);
  if (!engines) return std::unexpected(engines.error());
  if (const auto warning = config::warning_of(config); !warning.empty()) spdlog::warn("{}", warning);
  auto next = std::make_shared<snapshot>();
  next->config = config;
  next->admin_key = std::move(*admin_key);
  learn_scopes(config, services.keys.ring, services.routing->scopes());
  auto tracing = open_tracer(config.tracing, previous, services);
  if (!tracing) return std::unexpected(tracing.error());
  next->tracing = std::move(*tracing);
  next->retries = take_over_retries(config.failover, previous);
  next->engines = std::move(*engines);
  next->replicas = std::move(*replicas);
  next->events = std::move(*events);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto created_s = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  for (const auto& model : config.models) {
    auto entry = make_entry(model, *next, services);
    if (!entry) return std::unexpected(entry.error());
    (*entry)->created_s = created_s;
    (*entry)->hedges = take_over_hedges(config.failover, model.name, previous);
    auto copies_to = open_shadow(model, *next, previous, services);
    if (!copies_to) return std::unexpected(copies_to.error());
    (*entry)->shadow = std::move(*copies_to);
    const std::shared_ptr<const model_entry> shared = std::move(*entry);
    next->model_by_name[model.name] = shared;
    for (const auto& alias : model.aliases) next->model_by_name[alias] = shared;
    next->models.push_back(shared);
  }
  services.routing->follow_loads(scraped_targets(*next, services.metrics));
  return next;
}

std::string replica_fault(const snapshot& snap) {
  for (const auto& [name, engine] : snap.engines) {
    auto why = snap.config.replica.on ? engine.target->fault() : std::string();
    if (!why.empty()) return why;
  }
  return {};
}

}  // namespace weir::gateway
