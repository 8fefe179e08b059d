#include "gateway/config/read_keys.hpp"

#include "gateway/auth/key_text.hpp"
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

}  // namespace weir::gateway::config
