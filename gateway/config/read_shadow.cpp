#include "gateway/config/read_shadow.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "gateway/shadow/field_path.hpp"

namespace weir::gateway::config {

namespace {

constexpr std::int64_t k_milliseconds_max = 24LL * 3600 * 1000;

void read_copy(map_reader& in, shadow_copy_config& out) {
  in.text("model", out.model);
  in.text("target", out.target);
  in.number("share", out.share, 0, 1);
  in.integer("requests_per_s", out.requests_per_s, {1, 10'000});
  in.integer("in_flight", out.in_flight, {1, 1024});
  in.bytes("memory_bytes", out.memory_bytes, {1 << 20, 1LL << 36});
  in.bytes("body_bytes", out.body_bytes, {1024, 64 << 20});
  in.bytes("answer_bytes", out.answer_bytes, {1024, 1 << 20});
  in.integer("timeout_ms", out.timeout_ms, {10, k_milliseconds_max});
  in.flag("keep_text", out.keep_text);
  if (in.has("redact")) out.redact.clear();
  in.text_list("redact", out.redact);
  for (const auto& path : out.redact) {
    if (const auto parsed = shadow::parse_path(path); !parsed) {
      in.fail("redact", fmt::format("'{}' {}", path, parsed.error()));
    }
  }
}

}  // namespace

void read_shadow(map_reader& in, shadow_config& out) {
  out.at = in.at();
  in.integer("keep_pairs", out.keep_pairs, {1, 100'000});
  in.integer("keep_days", out.keep_days, {1, 3650});
  in.integer("seed", out.seed, {0, std::numeric_limits<std::int64_t>::max()});
  in.map_list("copies", [&](map_reader& m) {
    shadow_copy_config copy{.at = m.at()};
    read_copy(m, copy);
    out.copies.push_back(std::move(copy));
  });
}

std::vector<fault> check_shadow(const gateway_config& config, const std::string& file) {
  std::vector<fault> out;
  const auto fail = [&](mark at, std::string key, std::string message) {
    out.push_back({file, at, std::move(key), std::move(message)});
  };
  const auto& shadow = config.shadow;
  if (!shadow.copies.empty() && config.auth.ledger_dir.empty()) {
    fail(shadow.at, "shadow", "needs auth.ledger_dir: what copies show is kept in the ledger");
  }
  std::set<std::string> models;
  for (std::size_t i = 0; i < shadow.copies.size(); ++i) {
    const auto& copy = shadow.copies[i];
    const auto key = fmt::format("shadow.copies[{}]", i);
    const auto is_model = [&](const model_config& m) { return m.name == copy.model; };
    if (std::none_of(config.models.begin(), config.models.end(), is_model)) {
      fail(copy.at, key + ".model", fmt::format("no model named '{}'", copy.model));
    } else if (!models.insert(copy.model).second) {
      fail(copy.at, key + ".model", fmt::format("'{}' has copies already", copy.model));
    }
    const auto target = std::find_if(config.targets.begin(), config.targets.end(),
                                     [&](const target_config& t) { return t.name == copy.target; });
    if (target == config.targets.end()) {
      fail(copy.at, key + ".target", fmt::format("no target named '{}'", copy.target));
      continue;
    }
    if (!target->is_http) fail(copy.at, key + ".target", "copies go to http targets");
    const auto serves = [&](const model_config& m) {
      return std::find(m.targets.begin(), m.targets.end(), copy.target) != m.targets.end();
    };
    if (!target->terms.hosted && std::any_of(config.models.begin(), config.models.end(), serves)) {
      fail(
          copy.at, key + ".target",
          fmt::format("'{}' answers requests of its own, which copies would slow down; take a target that no "
                      "model has, or a hosted one",
                      copy.target));
    }
  }
  return out;
}

}  // namespace weir::gateway::config
