#include "gateway/fleet.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

namespace weir::gateway {

namespace {

using engine_map = std::map<std::string, std::shared_ptr<upstream::engine_upstream>, std::less<>>;

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
    if (old.name == target.name && old.engine == target.engine) return previous->engines.at(old.name);
  }
  return nullptr;
}

std::expected<engine_map, std::string> open_engines(const config::gateway_config& config,
                                                    const snapshot* previous) {
  engine_map engines;
  for (const auto& target : config.targets) {
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

}  // namespace

const model_entry* snapshot::find_model(std::string_view name) const {
  const auto found = model_by_name.find(name);
  return found == model_by_name.end() ? nullptr : found->second.get();
}

std::expected<std::shared_ptr<const snapshot>, std::string> build_snapshot(
    const config::gateway_config& config, const snapshot* previous) {
  auto keys = auth::key_store::make(config.auth);
  if (!keys) return std::unexpected(keys.error());
  auto engines = open_engines(config, previous);
  if (!engines) return std::unexpected(engines.error());
  auto next = std::make_shared<snapshot>();
  next->config = config;
  next->keys = std::move(*keys);
  next->engines = std::move(*engines);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  for (const auto& model : config.models) {
    auto entry = std::make_shared<model_entry>();
    entry->name = model.name;
    entry->created_s = std::chrono::duration_cast<std::chrono::seconds>(now).count();
    for (const auto& target : model.targets) {
      const auto& engine = next->engines.at(target);
      entry->targets.push_back(engine);
      entry->context_tokens = std::max<std::int64_t>(entry->context_tokens, engine->model().context_tokens);
    }
    next->model_by_name[model.name] = entry;
    for (const auto& alias : model.aliases) next->model_by_name[alias] = entry;
    next->models.push_back(std::move(entry));
  }
  return next;
}

}  // namespace weir::gateway
