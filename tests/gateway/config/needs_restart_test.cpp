#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "gateway/reload.hpp"

namespace weir::gateway {

TEST_CASE("a reload names every key that only a restart changes") {
  using config::gateway_config;
  struct row {
    const char* keys;
    std::function<void(gateway_config&)> change;
  };
  const row rows[] = {
      {"", [](gateway_config&) {}},
      {"listen", [](gateway_config& c) { c.listen.port = 1; }},
      {"listen", [](gateway_config& c) { c.listen.address = "0.0.0.0"; }},
      {"admin.listen", [](gateway_config& c) { c.admin.port = 1; }},
      {"tls.cert_file", [](gateway_config& c) { c.listen.tls.cert_file = "x"; }},
      {"tls.key_file", [](gateway_config& c) { c.listen.tls.key_file = "x"; }},
      {"io_threads", [](gateway_config& c) { c.io_threads = 9; }},
      {"limits.connections", [](gateway_config& c) { c.limits.connections = 1; }},
      {"limits.body_budget_bytes", [](gateway_config& c) { c.limits.body_budget_bytes = 1; }},
      {"limits.head_timeout_ms", [](gateway_config& c) { c.limits.head_timeout_ms = 1; }},
      {"limits.body_idle_timeout_ms", [](gateway_config& c) { c.limits.body_idle_timeout_ms = 1; }},
      {"limits.keep_alive_idle_ms", [](gateway_config& c) { c.limits.keep_alive_idle_ms = 1; }},
      {"limits.write_idle_timeout_ms", [](gateway_config& c) { c.limits.write_idle_timeout_ms = 1; }},
      {"listen, io_threads", [](gateway_config& c) { c.listen.port = 1, c.io_threads = 9; }},
      {"", [](gateway_config& c) { c.limits.body_bytes = 1; }},
      {"", [](gateway_config& c) { c.limits.request_timeout_ms = 1; }},
      {"", [](gateway_config& c) { c.limits.first_token_timeout_ms = 1; }},
      {"", [](gateway_config& c) { c.limits.inter_token_timeout_ms = 1; }},
      {"", [](gateway_config& c) { c.limits.drain_grace_ms = 1; }},
      {"", [](gateway_config& c) { c.auth.loopback_open = true; }},
      {"", [](gateway_config& c) { c.log.level = "debug"; }},
      {"", [](gateway_config& c) { c.models.push_back({.name = "x"}); }},
      {"", [](gateway_config& c) { c.targets.push_back({.name = "x"}); }},
  };
  for (const auto& r : rows) {
    gateway_config wanted;
    r.change(wanted);
    INFO(r.keys);
    CHECK(needs_restart({}, wanted) == r.keys);
  }
}

}  // namespace weir::gateway
