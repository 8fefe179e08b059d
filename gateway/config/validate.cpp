#include <fmt/format.h>
#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "gateway/auth/key_text.hpp"
#include "gateway/config/base_url.hpp"
#include "gateway/config/load.hpp"
#include "gateway/config/read_shadow.hpp"

namespace weir::gateway::config {

namespace {

// Those of which no target has any.
std::vector<std::string_view> models_without_price(const gateway_config& config) {
  std::set<std::string_view> priced;
  for (const auto& t : config.targets) {
    if (!t.terms.prices.empty()) priced.insert(t.name);
  }
  std::vector<std::string_view> out;
  for (const auto& m : config.models) {
    const bool any =
        std::any_of(m.targets.begin(), m.targets.end(), [&](const auto& t) { return priced.contains(t); });
    if (!any) out.push_back(m.name);
  }
  return out;
}

class checker {
 public:
  checker(const gateway_config& config, const std::filesystem::path& file, bool check_files)
      : config_(config), file_(file.string()), check_files_(check_files) {}

  std::vector<fault> run() {
    check_listeners();
    check_tracing();
    check_targets();
    check_models();
    check_rules();
    check_keys();
    check_redis();
    for (auto& f : check_shadow(config_, file_)) faults_.push_back(std::move(f));
    return std::move(faults_);
  }

 private:
  void fail(mark at, std::string key, std::string message) {
    faults_.push_back({file_, at, std::move(key), std::move(message)});
  }

  void check_name(const std::string& name, mark at, const std::string& key) {
    if (const auto wrong = auth::fault_of_name(name); !wrong.empty()) fail(at, key, std::string(wrong));
  }

  void check_file(const std::filesystem::path& path, mark at, const std::string& key,
                  std::string_view remedy = {}) {
    std::error_code ec;
    if (check_files_ && !path.empty() && !std::filesystem::exists(path, ec)) {
      fail(at, key, fmt::format("{} does not exist{}", path.string(), remedy));
    }
  }

  void check_listeners() {
    boost::system::error_code ec;
    const auto api = boost::asio::ip::make_address(config_.listen.address, ec);
    if (ec)
      fail(config_.listen.at, "listen", fmt::format("'{}' is not a numeric address", config_.listen.address));
    const bool keyless = config_.auth.keys.empty() && config_.auth.ledger_dir.empty();
    if (!ec && !api.is_loopback() && keyless) {
      fail(config_.listen.at, "listen",
           "an address that other machines reach needs auth.keys (weir keys new) or auth.ledger_dir; or "
           "listen "
           "on 127.0.0.1");
    }
    if (!ec && api.is_loopback() && keyless && !config_.auth.loopback_open) {
      fail(config_.auth.at, "auth",
           "needs keys (weir keys new), a ledger_dir or loopback_open: true; without them nobody may call");
    }
    const auto admin = boost::asio::ip::make_address(config_.admin.address, ec);
    if (ec) {
      fail(config_.admin.at, "admin.listen",
           fmt::format("'{}' is not a numeric address", config_.admin.address));
    } else if (!admin.is_loopback()) {
      fail(config_.admin.at, "admin.listen", "the admin listener stays on loopback (127.0.0.1 or [::1])");
    }
    if (config_.listen.port != 0 && config_.listen.port == config_.admin.port &&
        config_.listen.address == config_.admin.address) {
      fail(config_.admin.at, "admin.listen", "is the same as listen");
    }
    check_file(config_.listen.tls.cert_file, config_.listen.tls.at, "tls.cert_file");
    check_file(config_.listen.tls.key_file, config_.listen.tls.at, "tls.key_file");
  }

  void check_tracing() {
    const auto& t = config_.tracing;
    if (t.endpoint.empty()) {
      if (t != tracing_config()) fail(t.at, "tracing.endpoint", "is missing, as http://collector:4318");
      return;
    }
    const auto url = parse_base_url(t.endpoint);
    if (!url) fail(t.at, "tracing.endpoint", url.error());
    check_file(t.token_file, t.at, "tracing.token_file");
  }

  void check_targets() {
    if (config_.targets.empty()) fail({}, "targets", "needs at least one target");
    for (std::size_t i = 0; i < config_.targets.size(); ++i) {
      const auto& t = config_.targets[i];
      const auto key = fmt::format("targets[{}]", i);
      check_name(t.name, t.at, key + ".name");
      if (!target_names_.insert(t.name).second)
        fail(t.at, key + ".name", fmt::format("'{}' is taken", t.name));
      if (t.is_http) {
        check_http_target(t, key + ".http");
      } else {
        check_engine_target(t, key + ".engine");
        if (t.cache.on) fail(t.at, key + ".cache", "belongs to http targets");
        if (t.terms.hosted) fail(t.at, key + ".hosted", "belongs to http targets");
      }
    }
  }

  void check_engine_target(const target_config& t, const std::string& key) {
    if (t.engine.model_dir.empty()) fail(t.at, key + ".model_dir", "needs a checkpoint folder");
    check_file(t.engine.model_dir, t.at, key + ".model_dir");
    if (t.engine.spacing_tokens % t.engine.unit_tokens != 0) {
      fail(t.at, key + ".spacing_tokens",
           fmt::format("{} is no multiple of unit_tokens ({})", t.engine.spacing_tokens,
                       t.engine.unit_tokens));
    }
    if (t.engine.decode_stretch > 0 && t.engine.decode_stretch < 1) {
      fail(t.at, key + ".decode_stretch",
           fmt::format("{}: no step is shorter with prompts than without; 0 means no limit",
                       t.engine.decode_stretch));
    }
    if (t.engine.step_tokens < t.engine.sequences) {
      fail(t.at, key + ".step_tokens",
           fmt::format("{} is below sequences ({}): a step holds one token of each running sequence",
                       t.engine.step_tokens, t.engine.sequences));
    }
  }

  void check_http_target(const target_config& t, const std::string& key) {
    if (t.http.base_url.empty()) {
      fail(t.at, key + ".base_url", "needs the address of the target, as https://host:8000/v1");
    } else if (const auto url = parse_base_url(t.http.base_url); !url) {
      fail(t.at, key + ".base_url", url.error());
    }
    if (!t.http.model.empty()) check_name(t.http.model, t.at, key + ".model");
    check_dialect(t, key);
    check_file(t.http.api_key_file, t.at, key + ".api_key_file");
    check_file(t.http.ca_file, t.at, key + ".ca_file");
  }

  void check_dialect(const target_config& t, const std::string& key) {
    static constexpr std::string_view k_known[] = {"chat",      "completions", "embeddings",
                                                   "responses", "messages",    "count_tokens"};
    static constexpr std::string_view k_of_messages[] = {"chat", "messages", "count_tokens"};
    const auto is_one_of = [](std::string_view name, std::span<const std::string_view> names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    const bool messages = t.http.dialect == "anthropic";
    for (const auto& name : t.http.endpoints) {
      if (!is_one_of(name, k_known)) {
        fail(t.at, key + ".endpoints", fmt::format("'{}' is none of {}", name, fmt::join(k_known, ", ")));
      } else if (messages && !is_one_of(name, k_of_messages)) {
        fail(t.at, key + ".endpoints", fmt::format("'{}' cannot be said in dialect anthropic", name));
      }
    }
    const http_target_config defaults;
    const auto belongs = [&](bool is_default, std::string_view field) {
      if (!messages && !is_default) {
        fail(t.at, fmt::format("{}.{}", key, field), "belongs to targets of dialect anthropic");
      }
    };
    belongs(t.http.max_tokens == defaults.max_tokens, "max_tokens");
    belongs(t.http.thinking == defaults.thinking, "thinking");
    belongs(t.http.sampling == defaults.sampling, "sampling");
  }

  void check_models() {
    if (config_.models.empty()) fail({}, "models", "needs at least one model");
    const auto take = [&](const std::string& name, mark at, const std::string& key) {
      check_name(name, at, key);
      if (!model_names_.insert(name).second) fail(at, key, fmt::format("'{}' names two models", name));
    };
    for (std::size_t i = 0; i < config_.models.size(); ++i) {
      const auto& m = config_.models[i];
      const auto key = fmt::format("models[{}]", i);
      take(m.name, m.at, key + ".name");
      main_names_.insert(m.name);
      for (const auto& alias : m.aliases) take(alias, m.at, key + ".aliases");
      if (m.targets.empty()) fail(m.at, key + ".targets", "needs at least one target");
      check_sharing(m, key);
      std::set<std::string> once;
      for (const auto& t : m.targets) {
        if (!once.insert(t).second) fail(m.at, key + ".targets", fmt::format("'{}' stands here twice", t));
        if (!target_names_.contains(t)) fail(m.at, key + ".targets", fmt::format("no target named '{}'", t));
      }
    }
  }

  // One chain of keys stands for a prompt on all targets of a model, so it has one scope.
  void check_sharing(const model_config& m, const std::string& key) {
    bool salted = false;
    bool shared = false;
    for (const auto& t : config_.targets) {
      if (!t.cache.on || std::find(m.targets.begin(), m.targets.end(), t.name) == m.targets.end()) continue;
      (t.cache.salted ? salted : shared) = true;
    }
    if (salted && shared) {
      fail(m.at, key + ".targets", "mix cache.salted true and false: tenants would share what they must not");
    }
  }

  void check_rules() {
    std::set<std::string> names;
    for (std::size_t i = 0; i < config_.rules.size(); ++i) {
      const auto& r = config_.rules[i];
      const auto at = config_.rule_marks[i];
      const auto key = fmt::format("rules[{}]", i);
      check_name(r.name, at, key + ".name");
      if (!names.insert(r.name).second) fail(at, key + ".name", fmt::format("'{}' is taken", r.name));
      for (const auto* list : {&r.allow, &r.forbid}) {
        for (const auto& t : *list) {
          if (!target_names_.contains(t)) fail(at, key, fmt::format("no target named '{}'", t));
        }
      }
      for (const auto& m : r.when.models) {
        if (!main_names_.contains(m)) fail(at, key + ".when.models", fmt::format("no model named '{}'", m));
      }
      if (r.allow.empty() && r.forbid.empty() && r.ttft_s <= 0 && r.itl_s <= 0 && r.cost_max_usd <= 0) {
        fail(at, key, "does nothing: give it allow, forbid, ttft_ms, itl_ms or usd_max");
      }
    }
  }

  void check_tenants() {
    std::set<std::string> names;
    for (std::size_t i = 0; i < config_.auth.tenants.size(); ++i) {
      const auto key = fmt::format("auth.tenants[{}].name", i);
      const auto& name = config_.auth.tenants[i].name;
      check_name(name, config_.auth.at, key);
      if (!names.insert(name).second) fail(config_.auth.at, key, fmt::format("'{}' is taken", name));
    }
  }

  // Nobody else's files in there, and its mode is the ledger's.
  void check_ledger_dir() {
    const auto& dir = config_.auth.ledger_dir;
    if (dir.empty()) return;
    const auto absolute = [](const std::filesystem::path& path) {
      std::error_code ignored;
      auto out = std::filesystem::absolute(path, ignored).lexically_normal();
      return out.has_filename() ? out : out.parent_path();
    };
    const auto from_here =
        absolute(std::filesystem::path(file_).parent_path()).lexically_relative(absolute(dir));
    if (!from_here.empty() && *from_here.begin() != "..") {  // the configuration's folder or one above it
      fail(config_.auth.at, "auth.ledger_dir", "needs a folder of its own");
    }
  }

  void check_admin_hosts() {
    for (const auto& host : config_.admin_access.hosts) {
      const auto url = parse_base_url("http://" + host);
      if (url && url->authority == host) continue;
      fail(config_.admin_access.at, "admin.hosts",
           fmt::format("'{}' is no host; write its name, or its name and port", host));
    }
  }

  // What costs nothing is no business of a budget: it would never end.
  void check_budget(const key_config& k, const std::string& key) {
    if (!k.terms.limits.has_budget()) return;
    if (config_.auth.ledger_dir.empty()) {
      fail(k.at, key + ".limits", "a budget needs auth.ledger_dir: what was spent must survive a restart");
    }
    for (const auto& name : models_without_price(config_)) {
      const auto& models = k.terms.models;
      if (!models.empty() && std::find(models.begin(), models.end(), name) == models.end()) continue;
      fail(k.at, key + ".limits",
           fmt::format("a budget bounds nothing on model '{}': none of its targets has a price; set "
                       "targets[].price, 0 where it is free, or name the key's models",
                       name));
    }
  }

  void check_keys() {
    const auto& auth = config_.auth;
    if (!auth.keys.empty() && auth.secret_file.empty() && auth.secret.empty()) {
      fail(auth.at, "auth.secret_file", "keys need the server secret that their digests were made with");
    }
    if (!auth.ledger_dir.empty() && auth.secret_file.empty()) {
      fail(auth.at, "auth.secret_file",
           "a ledger_dir needs the server secret that digests of its keys are made with");
    }
    check_ledger_dir();
    check_admin_hosts();
    check_file(auth.secret_file, auth.at, "auth.secret_file",
               "; 'weir keys new --secret-file FILE' makes it with the first key");
    check_file(config_.admin_access.key_file, config_.admin_access.at, "admin.key_file",
               "; 'weir keys admin-key --file FILE' makes it");
    check_tenants();
    std::set<std::string> names;
    std::map<std::string, std::string> digests;
    for (std::size_t i = 0; i < auth.keys.size(); ++i) {
      const auto& k = auth.keys[i];
      const auto key = fmt::format("auth.keys[{}]", i);
      check_name(k.name, k.at, key + ".name");
      check_name(k.tenant, k.at, key + ".tenant");
      if (!names.insert(k.name).second) fail(k.at, key + ".name", fmt::format("'{}' is taken", k.name));
      const bool hex = k.digest.find_first_not_of("0123456789abcdef") == std::string::npos;
      if (!hex || k.digest.size() != 64) {
        fail(k.at, key + ".digest", "expected 64 lower-case hex digits, as weir keys new prints them");
      } else if (!digests.emplace(k.digest, k.name).second) {
        fail(k.at, key + ".digest", fmt::format("is the same key as '{}'", digests[k.digest]));
      }
      check_budget(k, key);
      for (const auto& model : k.terms.models) {
        if (main_names_.contains(model)) continue;
        const bool alias = model_names_.contains(model);
        fail(k.at, key + ".models",
             alias ? fmt::format("'{}' is an alias; write the model's name", model)
                   : fmt::format("no model named '{}'", model));
      }
    }
  }

  void check_redis() {
    const auto& redis = config_.redis;
    check_file(redis.password_file, redis.at, "redis.password_file");
    check_file(redis.ca_file, redis.at, "redis.ca_file");
    for (const char c : redis.prefix) {
      if (c <= 0x20 || c >= 0x7f) return fail(redis.at, "redis.prefix", "only printable ASCII without space");
    }
    if (redis.prefix.size() > auth::k_name_bytes_max) {
      fail(redis.at, "redis.prefix", fmt::format("longer than {} bytes", auth::k_name_bytes_max));
    }
  }

  const gateway_config& config_;
  std::string file_;
  bool check_files_;
  std::vector<fault> faults_;
  std::set<std::string> target_names_;
  std::set<std::string> model_names_;  // with aliases
  std::set<std::string> main_names_;   // without
};

}  // namespace

std::string warning_of(const gateway_config& config) {
  if (config.auth.ledger_dir.empty()) return {};
  const auto models = models_without_price(config);
  if (models.empty()) return {};
  return fmt::format("no target of model '{}' has a price: budgets of keys in the ledger do not bound it",
                     fmt::join(models, "', '"));
}

std::vector<fault> validate(const gateway_config& config, const std::filesystem::path& file,
                            bool check_files) {
  return checker(config, file, check_files).run();
}

}  // namespace weir::gateway::config
