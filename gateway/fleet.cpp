#include "gateway/fleet.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

#include "gateway/http/tls_context.hpp"

namespace weir::gateway {

namespace {

using engine_map = std::map<std::string, std::shared_ptr<upstream::engine_upstream>, std::less<>>;
using replica_map = std::map<std::string, std::shared_ptr<upstream::upstream>, std::less<>>;

// Names of targets may still be unknown when the first requests come, but not for want of waiting a little.
constexpr std::chrono::seconds k_first_lookup_wait{2};

upstream::engine_upstream_config to_engine_config(const config::target_config& target) {
  upstream::engine_upstream_config out;
  out.name = target.name;
  out.engine.model_dir = target.engine.model_dir;
  out.engine.backend =
      target.engine.backend == "reference" ? engine::backend_kind::reference : engine::backend_kind::cpu;
  out.engine.compute_threads = static_cast<std::int32_t>(target.engine.threads);
  out.engine.sequences_max = static_cast<std::int32_t>(target.engine.sequences);
  out.engine.queue_max = static_cast<std::int32_t>(target.engine.queue);
  out.engine.kv_bytes = target.engine.kv_bytes;
  out.engine.step_tokens_max = static_cast<std::int32_t>(target.engine.step_tokens);
  out.engine.on_fault = [name = target.name](const std::string& what) {
    spdlog::error("target '{}': {}", name, what);
  };
  return out;
}

std::shared_ptr<upstream::engine_upstream> take_over(const config::target_config& target,
                                                     const snapshot* previous) {
  if (previous == nullptr) return nullptr;
  for (const auto& old : previous->config.targets) {
    if (!old.is_http && old.name == target.name && old.engine == target.engine)
      return previous->engines.at(old.name);
  }
  return nullptr;
}

std::expected<engine_map, std::string> open_engines(const config::gateway_config& config,
                                                    const snapshot* previous) {
  engine_map engines;
  for (const auto& target : config.targets) {
    if (target.is_http) continue;
    auto engine = take_over(target, previous);
    if (!engine) {
      auto opened = upstream::engine_upstream::open(to_engine_config(target));
      if (!opened) {
        return std::unexpected(fmt::format("target '{}': {}: {}", target.name,
                                           target.engine.model_dir.string(), opened.error().detail));
      }
      engine = std::move(*opened);
    }
    engines.emplace(target.name, std::move(engine));
  }
  return engines;
}

upstream::reply_limits reply_limits_of(const config::limits_config& limits) {
  return {.body_bytes = static_cast<std::size_t>(limits.reply_bytes),
          .event_bytes = static_cast<std::size_t>(limits.event_bytes)};
}

// The same target under the same limits goes on, with its connections. A new one reads its key again.
std::shared_ptr<upstream::upstream> take_over_replica(const config::target_config& target,
                                                      const config::limits_config& limits,
                                                      const snapshot* previous) {
  if (previous == nullptr || !target.http.api_key_file.empty()) return nullptr;
  const auto& old_limits = previous->config.limits;
  if (reply_limits_of(old_limits) != reply_limits_of(limits) ||
      old_limits.write_idle_timeout_ms != limits.write_idle_timeout_ms) {
    return nullptr;
  }
  for (const auto& old : previous->config.targets) {
    if (old.is_http && old.name == target.name && old.http == target.http)
      return previous->replicas.at(old.name);
  }
  return nullptr;
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
          upstream::make_origin(target, write_idle, services.names, services.metrics.upstream(target.name));
      if (!origin) return std::unexpected(fmt::format("target '{}': {}", target.name, origin.error()));
      names.push_back((*origin)->addresses);
      replica = upstream::make_http_upstream(std::move(*origin), reply_limits_of(config.limits),
                                             services.reply_budget);
    }
    replicas.emplace(target.name, std::move(replica));
  }
  const auto deadline = std::chrono::steady_clock::now() + k_first_lookup_wait;
  for (const auto& name : names) name->wait_looked_up(deadline);
  return replicas;
}

}  // namespace

const model_entry* snapshot::find_model(std::string_view name) const {
  const auto found = model_by_name.find(name);
  return found == model_by_name.end() ? nullptr : found->second.get();
}

std::string check_credentials(const config::gateway_config& config) {
  if (const auto keys = auth::key_store::make(config.auth); !keys) return keys.error();
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
  auto keys = auth::key_store::make(config.auth);
  if (!keys) return std::unexpected(keys.error());
  auto replicas = open_replicas(config, previous, services);
  if (!replicas) return std::unexpected(replicas.error());
  auto engines = open_engines(config, previous);
  if (!engines) return std::unexpected(engines.error());
  auto next = std::make_shared<snapshot>();
  next->config = config;
  next->keys = std::move(*keys);
  next->engines = std::move(*engines);
  next->replicas = std::move(*replicas);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  for (const auto& model : config.models) {
    auto entry = std::make_shared<model_entry>();
    entry->name = model.name;
    entry->created_s = std::chrono::duration_cast<std::chrono::seconds>(now).count();
    for (const auto& target : model.targets) {
      const auto engine = next->engines.find(target);
      if (engine != next->engines.end()) {
        entry->targets.push_back(engine->second);
      } else {
        entry->targets.push_back(next->replicas.at(target));
      }
      entry->context_tokens = std::max(entry->context_tokens, entry->targets.back()->view().context_tokens);
    }
    next->model_by_name[model.name] = entry;
    for (const auto& alias : model.aliases) next->model_by_name[alias] = entry;
    next->models.push_back(std::move(entry));
  }
  return next;
}

}  // namespace weir::gateway
