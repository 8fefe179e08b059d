#include "gateway/reload.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "gateway/config/load.hpp"
#include "gateway/http/tls_context.hpp"
#include "gateway/observe/log.hpp"

namespace weir::gateway {

std::string needs_restart(const config::gateway_config& running, const config::gateway_config& wanted) {
  std::string keys;
  const auto compare = [&](const char* key, const auto& a, const auto& b) {
    if (a != b) keys += fmt::format("{}{}", keys.empty() ? "" : ", ", key);
  };
  compare("listen", std::pair(running.listen.address, running.listen.port),
          std::pair(wanted.listen.address, wanted.listen.port));
  compare("admin.listen", std::pair(running.admin.address, running.admin.port),
          std::pair(wanted.admin.address, wanted.admin.port));
  compare("tls.cert_file", running.listen.tls.cert_file, wanted.listen.tls.cert_file);
  compare("tls.key_file", running.listen.tls.key_file, wanted.listen.tls.key_file);
  compare("io_threads", running.io_threads, wanted.io_threads);
  const auto& a = running.limits;
  const auto& b = wanted.limits;
  compare("limits.connections", a.connections, b.connections);
  compare("limits.body_budget_bytes", a.body_budget_bytes, b.body_budget_bytes);
  compare("limits.stream_budget_bytes", a.stream_budget_bytes, b.stream_budget_bytes);
  compare("limits.head_timeout_ms", a.head_timeout_ms, b.head_timeout_ms);
  compare("limits.body_idle_timeout_ms", a.body_idle_timeout_ms, b.body_idle_timeout_ms);
  compare("limits.keep_alive_idle_ms", a.keep_alive_idle_ms, b.keep_alive_idle_ms);
  compare("limits.write_idle_timeout_ms", a.write_idle_timeout_ms, b.write_idle_timeout_ms);
  compare("auth.ledger_dir", running.auth.ledger_dir, wanted.auth.ledger_dir);
  compare("redis", running.redis, wanted.redis);
  compare("routing.state_dir", running.routing.state_dir, wanted.routing.state_dir);
  compare("routing.index_bytes", running.routing.index_bytes, wanted.routing.index_bytes);
  compare("routing.prompt_memory_bytes", running.routing.prompt_memory_bytes,
          wanted.routing.prompt_memory_bytes);
  return keys;
}

std::expected<void, std::string> reloader::start(const config::gateway_config& config) {
  if (auto opened = services_.keys.open(config.auth); !opened) return opened;
  if (auto shared = services_.keys.share(config.redis, services_.metrics); !shared) return shared;
  auto first = build_snapshot(config, nullptr, services_);
  if (!first) return std::unexpected(first.error());
  keep_pairs(config.shadow);
  holder_.set(std::move(*first));
  return {};
}

bool reloader::run() {
  if (config_file_.empty()) {
    spdlog::warn("reload: there is no configuration file to read again; restart to change options");
    return false;
  }
  const auto wanted = config::load(config_file_);
  if (!wanted) {
    spdlog::error("reload refused, the running configuration stays:\n{}", config::to_text(wanted.error()));
    return false;
  }
  const auto running = holder_.get();
  if (const auto keys = needs_restart(running->config, *wanted); !keys.empty()) {
    spdlog::error("reload refused, the running configuration stays: a change of {} needs a restart", keys);
    return false;
  }
  const auto& tls = wanted->listen.tls;
  if (!tls.cert_file.empty()) {
    const http::tls_files files{tls.cert_file, tls.key_file};
    if (const auto usable = http::make_tls_context(files, http::make_ticket_keys()); !usable) {
      spdlog::error("reload refused, the running configuration stays: {}", usable.error());
      return false;
    }
  }
  auto next = build_snapshot(*wanted, running.get(), services_);
  if (!next) {
    spdlog::error("reload refused, the running configuration stays: {}", next.error());
    return false;
  }
  if (const auto taken = services_.keys.ring.configure(wanted->auth); !taken) {
    spdlog::error("reload refused, the running configuration stays: {}", taken.error());
    return false;
  }
  keep_pairs(wanted->shadow);
  apply(std::move(*next));
  observe::set_up_logs(wanted->log.level);
  spdlog::info("reloaded {}", config_file_.string());
  return true;
}

void reloader::keep_pairs(const config::shadow_config& config) {
  if (!services_.keys.money) return;
  services_.keys.money->keep_pairs(
      {.count = static_cast<std::size_t>(config.keep_pairs), .days = config.keep_days});
}

void reloader::apply(std::shared_ptr<const snapshot> next) {
  const auto old = holder_.get();
  for (const auto& [name, engine] : old->engines) {
    const auto kept = next->engines.find(name);
    if (kept == next->engines.end() || kept->second.target != engine.target)
      retired_.push_back(engine.target);
  }
  holder_.set(std::move(next));
}

void reloader::sweep() {
  std::erase_if(retired_, [](const auto& engine) { return engine.use_count() == 1; });
}

}  // namespace weir::gateway
