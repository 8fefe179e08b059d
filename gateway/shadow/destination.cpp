#include "gateway/shadow/destination.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "gateway/observe/metrics.hpp"
#include "policy/mix.hpp"

namespace weir::gateway::shadow {

namespace {

constexpr std::int64_t k_ns_per_ms = 1'000'000;
constexpr std::string_view k_salt_field = "cache_salt";  // the client's own secret: it never leaves

const config::target_config& target_of(const config::gateway_config& config, const std::string& name) {
  return *std::find_if(config.targets.begin(), config.targets.end(),
                       [&](const auto& t) { return t.name == name; });
}

// The same address and credential with limits of its own.
config::target_config with_own_limits(config::target_config target, const config::shadow_copy_config& copy) {
  target.http.connections = copy.in_flight;
  target.http.request_timeout_ms = copy.timeout_ms;
  target.http.first_token_timeout_ms = copy.timeout_ms;
  target.http.inter_token_timeout_ms = copy.timeout_ms;
  target.http.connect_timeout_ms = std::min(target.http.connect_timeout_ms, copy.timeout_ms);
  target.http.tls_timeout_ms = std::min(target.http.tls_timeout_ms, copy.timeout_ms);
  return target;
}

policy::failover::breaker_terms to_breaker(const config::failover_config& terms) {
  return {.consecutive_max = static_cast<int>(terms.failures), .open_ns = terms.open_ms * k_ns_per_ms};
}

std::vector<field_path> paths_of(const config::shadow_copy_config& copy) {
  std::vector<field_path> out{{path_step{std::string(k_salt_field)}}};
  for (const auto& path : copy.redact) {
    if (auto parsed = parse_path(path)) out.push_back(std::move(*parsed));
  }
  return out;
}

}  // namespace

std::expected<std::shared_ptr<const destination>, std::string> make_destination(
    const config::gateway_config& config, const config::shadow_copy_config& copy,
    limits::target_prices prices, upstream::resolver& names, observe::metrics& metrics) {
  const auto& target = target_of(config, copy.target);
  const std::chrono::milliseconds write_idle(config.limits.write_idle_timeout_ms);
  // Attempts are counted apart from those of clients' requests.
  auto origin = upstream::make_origin(with_own_limits(target, copy), write_idle, names,
                                      metrics.upstream("shadow:" + target.name), nullptr);
  if (!origin) return std::unexpected(fmt::format("shadow target '{}': {}", target.name, origin.error()));
  std::random_device random;
  auto out = std::make_shared<destination>(copy, static_cast<std::uint64_t>(config.shadow.seed),
                                           to_breaker(config.failover), policy::mix(random()));
  out->configured = target.http;
  out->priced = target.terms.prices;
  out->redacted = paths_of(copy);
  out->prices = std::move(prices);
  out->counters = metrics.shadow(copy.model, copy.target);
  const upstream::reply_limits limits{.body_bytes = static_cast<std::size_t>(copy.memory_bytes),
                                      .event_bytes = static_cast<std::size_t>(config.limits.event_bytes)};
  out->target = upstream::make_http_upstream(std::move(*origin), limits, out->memory);
  return out;
}

bool is_same(const destination& old, const config::gateway_config& config,
             const config::shadow_copy_config& copy) {
  const auto& target = target_of(config, copy.target);
  return old.terms == copy && old.seed == static_cast<std::uint64_t>(config.shadow.seed) &&
         old.configured == target.http && old.priced == target.terms.prices &&
         target.http.api_key_file.empty();
}

}  // namespace weir::gateway::shadow
