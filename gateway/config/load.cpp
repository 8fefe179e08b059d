#include "gateway/config/load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <tuple>

#include "gateway/config/read_keys.hpp"
#include "gateway/config/read_routing.hpp"
#include "gateway/config/read_shadow.hpp"
#include "gateway/config/reader.hpp"

namespace weir::gateway::config {

namespace {

constexpr std::int64_t k_timeout_max_ms = 24LL * 3600 * 1000;
constexpr std::int64_t k_tebibyte = 1LL << 40;

void read_listen(map_reader& in, std::string_view key, listen_config& out) {
  std::string value;
  in.text(key, value);
  if (value.empty()) return;
  out.at = in.at(key);
  const auto address = read_address(value);
  if (!address) {
    in.fail(key, fmt::format("'{}' is not ADDRESS:PORT (127.0.0.1:8080, 0.0.0.0:80, [::1]:8080)", value));
    return;
  }
  std::tie(out.address, out.port) = *address;
}

void read_tls(map_reader& in, tls_config& out) {
  out.at = in.at();
  in.file_path("cert_file", out.cert_file);
  in.file_path("key_file", out.key_file);
  if (out.cert_file.empty() != out.key_file.empty()) in.fail("", "cert_file and key_file go together");
}

void read_limits(map_reader& in, limits_config& out) {
  in.bytes("body_bytes", out.body_bytes, {1024, 1LL << 30});
  in.bytes("body_budget_bytes", out.body_budget_bytes, {1024, k_tebibyte});
  in.integer("connections", out.connections, {1, 1'000'000});
  in.integer("head_timeout_ms", out.head_timeout_ms, {10, k_timeout_max_ms});
  in.integer("body_idle_timeout_ms", out.body_idle_timeout_ms, {10, k_timeout_max_ms});
  in.integer("keep_alive_idle_ms", out.keep_alive_idle_ms, {10, k_timeout_max_ms});
  in.integer("write_idle_timeout_ms", out.write_idle_timeout_ms, {10, k_timeout_max_ms});
  in.integer("request_timeout_ms", out.request_timeout_ms, {10, k_timeout_max_ms});
  in.integer("first_token_timeout_ms", out.first_token_timeout_ms, {10, k_timeout_max_ms});
  in.integer("inter_token_timeout_ms", out.inter_token_timeout_ms, {10, k_timeout_max_ms});
  in.integer("drain_grace_ms", out.drain_grace_ms, {0, k_timeout_max_ms});
  in.bytes("reply_bytes", out.reply_bytes, {1024, 1LL << 30});
  in.bytes("event_bytes", out.event_bytes, {1024, 64LL << 20});
  in.bytes("stream_budget_bytes", out.stream_budget_bytes, {1 << 20, k_tebibyte});
  in.integer("default_output_tokens", out.default_output_tokens, {1, 1LL << 40});
  in.integer("image_tokens", out.image_tokens, {0, 1LL << 30});
}

void read_http_target(map_reader& in, http_target_config& out) {
  in.text("base_url", out.base_url);
  in.text("model", out.model);
  in.choice("dialect", out.dialect, {"openai", "vllm", "moonshot", "anthropic"});
  in.text_list("endpoints", out.endpoints);
  in.integer("max_tokens", out.max_tokens, {1, 1 << 24});
  in.choice("thinking", out.thinking, {"adaptive", "budget"});
  in.flag("sampling", out.sampling);
  in.file_path("api_key_file", out.api_key_file);
  in.file_path("ca_file", out.ca_file);
  in.integer("connections", out.connections, {1, 1'000'000});
  in.integer("connect_timeout_ms", out.connect_timeout_ms, {1, k_timeout_max_ms});
  in.integer("tls_timeout_ms", out.tls_timeout_ms, {1, k_timeout_max_ms});
  in.integer("request_timeout_ms", out.request_timeout_ms, {1, k_timeout_max_ms});
  in.integer("first_token_timeout_ms", out.first_token_timeout_ms, {1, k_timeout_max_ms});
  in.integer("inter_token_timeout_ms", out.inter_token_timeout_ms, {1, k_timeout_max_ms});
  in.url_path("probe_path", out.probe_path);
  in.integer("context_tokens", out.context_tokens, {1, 1LL << 40});
  in.flag("images", out.images);
  in.flag("structured_output", out.structured_output);
  in.flag("forced_tools", out.forced_tools);
}

void read_target(map_reader& in, target_config& out) {
  in.text("name", out.name);
  out.is_http = in.has("http");
  if (in.has("engine") == out.is_http) in.fail("", "needs one kind: engine or http");
  in.map("http", [&](map_reader& h) { read_http_target(h, out.http); });
  in.map("cache", [&](map_reader& m) { read_cache(m, out.cache); });
  read_terms(in, out.terms);
  in.map("engine", [&](map_reader& e) {
    e.file_path("model_dir", out.engine.model_dir);
    e.choice("backend", out.engine.backend, {"auto", "cpu", "cuda", "reference"});
    e.choice("weights", out.engine.weights, {"stored", "int8", "mxfp4"});
    e.choice("activations", out.engine.activations, {"auto", "float32", "narrow"});
    e.integer("threads", out.engine.threads, {0, 256});
    e.integer("sequences", out.engine.sequences, {1, 65536});
    e.integer("queue", out.engine.queue, {1, 1'000'000});
    e.bytes("kv_bytes", out.engine.kv_bytes, {1 << 16, k_tebibyte});
    e.bytes("memory_bytes", out.engine.memory_bytes, {1 << 20, k_tebibyte});
    e.integer("step_tokens", out.engine.step_tokens, {1, 1 << 20});
    e.number("decode_stretch", out.engine.decode_stretch, 0, 100);
    e.flag("prefix_cache", out.engine.prefix_cache);
    e.integer("unit_tokens", out.engine.unit_tokens, {1, 4096});
    e.integer("spacing_tokens", out.engine.spacing_tokens, {0, 1 << 24});
    e.flag("expert_series", out.expert_series);
  });
}

void read_top(map_reader& in, gateway_config& out) {
  read_listen(in, "listen", out.listen);
  in.map("tls", [&](map_reader& m) { read_tls(m, out.listen.tls); });
  in.map("admin", [&](map_reader& m) {
    read_listen(m, "listen", out.admin);
    out.admin_access.at = m.at();
    m.file_path("key_file", out.admin_access.key_file);
    m.text_list("hosts", out.admin_access.hosts);
  });
  in.integer("io_threads", out.io_threads, {0, 1024});
  in.map("limits", [&](map_reader& m) { read_limits(m, out.limits); });
  in.map("auth", [&](map_reader& m) { read_auth(m, out.auth); });
  in.map("redis", [&](map_reader& m) { read_redis(m, out.redis); });
  in.map("log", [&](map_reader& m) {
    m.choice("level", out.log.level, {"debug", "info", "warn", "error"});
    m.flag("access", out.log.access);
  });
  in.map("tracing", [&](map_reader& m) {
    out.tracing.at = m.at();
    m.text("endpoint", out.tracing.endpoint);
    m.url_path("path", out.tracing.path);
    m.number("sample", out.tracing.sample, 0, 1);
    m.file_path("token_file", out.tracing.token_file);
  });
  in.map("failover", [&](map_reader& m) { read_failover(m, out.failover); });
  in.map("overload", [&](map_reader& m) { read_overload(m, out.overload); });
  in.map("routing", [&](map_reader& m) { read_routing(m, out.routing); });
  in.map("shadow", [&](map_reader& m) { read_shadow(m, out.shadow); });
  in.map_list("rules", [&](map_reader& m) {
    out.rule_marks.push_back(m.at());
    read_rule(m, out.rules.emplace_back());
  });
  in.map_list("targets", [&](map_reader& m) {
    target_config t{.at = m.at()};
    read_target(m, t);
    out.targets.push_back(std::move(t));
  });
  in.map_list("models", [&](map_reader& m) {
    model_config model{.at = m.at()};
    m.text("name", model.name);
    m.text_list("aliases", model.aliases);
    m.text_list("targets", model.targets);
    read_model_terms(m, model);
    out.models.push_back(std::move(model));
  });
}

std::unexpected<std::vector<fault>> one_fault(const std::filesystem::path& file, mark at,
                                              std::string message) {
  return std::unexpected(std::vector{fault{file.string(), at, "", std::move(message)}});
}

struct reading {
  gateway_config config;  // defaults where a value was at fault
  std::vector<fault> faults;
  bool is_yaml = true;  // the text had a structure to read
};

reading read(std::string_view yaml, const std::filesystem::path& file) {
  reading out;
  parse_state state{.file = file.string(), .base_dir = file.parent_path(), .faults = {}};
  if (yaml.size() > k_file_bytes_max) {
    out.faults = one_fault(file, {}, fmt::format("larger than {} bytes", k_file_bytes_max)).error();
    out.is_yaml = false;
    return out;
  }
  try {
    const YAML::Node root = YAML::Load(std::string(yaml));
    map_reader top(state, root, "");
    read_top(top, out.config);
    top.finish();
  } catch (const YAML::Exception& e) {
    const mark at{.line = e.mark.line + 1, .column = e.mark.column + 1};
    state.faults.push_back({state.file, at, "", "not valid YAML: " + e.msg});
    out.is_yaml = false;
  }
  out.faults = std::move(state.faults);
  return out;
}

// Rules between fields are checked beside faults of single fields, but say nothing again about a field that
// has one.
void add_unreported(std::vector<fault>& faults, std::vector<fault> more) {
  const std::size_t reported = faults.size();
  for (auto& f : more) {
    const auto same = [&](const fault& old) { return old.key == f.key; };
    const auto end = faults.begin() + static_cast<std::ptrdiff_t>(reported);
    if (std::none_of(faults.begin(), end, same)) faults.push_back(std::move(f));
  }
}

}  // namespace

std::optional<std::pair<std::string, std::uint16_t>> read_address(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  auto host = text.substr(0, colon);
  unsigned port = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data() + colon + 1, end, port);
  if (ec != std::errc() || stop != end || port > 65535) return std::nullopt;
  const bool bracketed = host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  return std::pair(std::string(host), static_cast<std::uint16_t>(port));
}

loaded parse(std::string_view yaml, const std::filesystem::path& file) {
  auto reading = read(yaml, file);
  if (!reading.faults.empty()) return std::unexpected(std::move(reading.faults));
  return std::move(reading.config);
}

loaded load(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return one_fault(file, {}, "cannot be opened; check the path and its permissions");
  std::string text;
  char block[65536];
  while (in.read(block, sizeof block) || in.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(in.gcount()));
    if (text.size() > k_file_bytes_max) break;
  }
  if (in.bad()) return one_fault(file, {}, "cannot be read");
  auto [config, faults, is_yaml] = read(text, file);
  if (is_yaml) add_unreported(faults, validate(config, file, true));
  if (!faults.empty()) return std::unexpected(std::move(faults));
  return std::move(config);
}

std::string to_text(const std::vector<fault>& faults) {
  std::string out;
  for (const auto& f : faults) {
    out += f.file;
    if (f.at.line > 0) out += fmt::format(":{}:{}", f.at.line, f.at.column);
    out += ": ";
    if (!f.key.empty()) out += f.key + ": ";
    out += f.message + "\n";
  }
  return out;
}

}  // namespace weir::gateway::config
