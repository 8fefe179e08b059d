#include "gateway/config/read_keys.hpp"

#include "gateway/auth/key_text.hpp"
#include "gateway/config/redis_url.hpp"
#include "policy/limits/gcra.hpp"

namespace weir::gateway::config {

namespace {

void read_budget(map_reader& in, std::string_view key, policy::limits::usd_nano& out) {
  double usd = 0;
  in.number(key, usd, 0, auth::k_usd_limit_max);
  out = auth::to_usd_nano(usd);
  if (in.has(key) && out == 0) in.fail(key, "is no budget; leave it out for a key without one");
}

void read_key_limits(map_reader& in, auth::key_limits& out) {
  in.integer("requests_per_min", out.requests_per_min, {1, policy::limits::k_rate_max});
  in.integer("tokens_per_min", out.tokens_per_min, {1, policy::limits::k_rate_max});
  in.integer("concurrent", out.concurrent, {1, auth::k_concurrent_max});
  read_budget(in, "usd_per_day", out.usd_per_day);
  read_budget(in, "usd_per_month", out.usd_per_month);
}

void read_terms(map_reader& in, auth::key_terms& out) {
  in.text_list("models", out.models);
  in.map("limits", [&](map_reader& m) { read_key_limits(m, out.limits); });
  std::string residency(auth::to_text(out.residency));
  std::string priority(auth::to_text(out.priority));
  std::string sharing(auth::to_text(out.sharing));
  in.choice("residency", residency, auth::residency_words());
  in.choice("priority", priority, auth::priority_words());
  in.choice("sharing", sharing, auth::key_sharing_words());
  in.flag("shadow", out.shadow);
  out.residency = auth::to_residency(residency).value_or(out.residency);
  out.priority = auth::to_priority(priority).value_or(out.priority);
  out.sharing = auth::to_key_sharing(sharing).value_or(out.sharing);
}

}  // namespace

void read_auth(map_reader& in, auth_config& out) {
  out.at = in.at();
  in.flag("loopback_open", out.loopback_open);
  in.file_path("secret_file", out.secret_file);
  in.file_path("ledger_dir", out.ledger_dir);
  in.map_list("keys", [&](map_reader& key) {
    key_config k{.at = key.at()};
    key.text("name", k.name);
    key.text("tenant", k.tenant);
    key.text("digest", k.digest);
    read_terms(key, k.terms);
    out.keys.push_back(std::move(k));
  });
  in.map_list("tenants", [&](map_reader& m) {
    auth::tenant_record tenant;
    m.text("name", tenant.name);
    m.integer("weight", tenant.weight, {1, auth::k_weight_max});
    out.tenants.push_back(std::move(tenant));
  });
}

void read_redis(map_reader& in, redis_config& out) {
  out.at = in.at();
  in.text("url", out.url);
  in.file_path("password_file", out.password_file);
  in.file_path("ca_file", out.ca_file);
  in.text("prefix", out.prefix);
  in.integer("timeout_ms", out.timeout_ms, {1, 10'000});
  in.integer("lease_ms", out.lease_ms, {100, 60'000});
  in.choice("rates_when_down", out.rates_when_down, {"local", "refuse"});
  if (out.url.empty()) {
    in.fail("url", "needs the store's address, as redis://host:6379");
    return;
  }
#ifndef WEIR_REDIS
  in.fail("url", "this weir was built without Redis; build it with libhiredis-dev (WEIR_REDIS=ON)");
#endif
  const auto url = parse_redis_url(out.url);
  if (!url) in.fail("url", url.error());
  if (url && !url->tls && !out.ca_file.empty()) in.fail("ca_file", "belongs to rediss:// addresses");
  if (url && !url->user.empty() && out.password_file.empty()) {
    in.fail("password_file", "the user in redis.url needs one");
  }
}

}  // namespace weir::gateway::config
