#include "gateway/admin/traffic_json.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <limits>

#include "engine/text/quote.hpp"
#include "gateway/admin/key_json.hpp"

namespace weir::gateway::admin {

namespace {

using ledger::traffic_counts;

constexpr std::int64_t k_seconds_per_hour = 3600;
constexpr std::size_t k_entries_max = 1'000'000;

struct field {
  const char* name;
  std::int64_t traffic_counts::*count;
};
constexpr field k_fields[] = {{"requests", &traffic_counts::requests},
                              {"accepted", &traffic_counts::accepted},
                              {"failed", &traffic_counts::failed},
                              {"retried", &traffic_counts::retried},
                              {"local_only", &traffic_counts::local_only},
                              {"prompt_tokens", &traffic_counts::prompt_tokens},
                              {"prompt_tokens_cache_known", &traffic_counts::known_tokens},
                              {"cached_tokens", &traffic_counts::cached_tokens},
                              {"output_tokens", &traffic_counts::output_tokens},
                              {"cost_nano_usd", &traffic_counts::cost},
                              {"first_at_s", &traffic_counts::first_s},
                              {"last_at_s", &traffic_counts::last_s}};

using simdjson::dom::element;

bool read_count(element of, const char* name, std::int64_t& out) {
  return !of[name].get(out) && out >= 0;
}

bool read_target(element of, ledger::traffic_table& out) {
  std::string_view model;
  std::string_view target;
  traffic_counts counts;
  if (of["model"].get(model) || of["target"].get(target) || of["hosted"].get(counts.hosted)) return false;
  for (const auto& [name, count] : k_fields) {
    if (!read_count(of, name, counts.*count)) return false;
  }
  return out.emplace(ledger::traffic_key{0, std::string(model), std::string(target)}, counts).second;
}

bool read_hour(element of, std::map<ledger::hour_number, std::int64_t>& out) {
  std::int64_t start_s = 0;
  std::int64_t requests = 0;
  if (!read_count(of, "start_s", start_s) || !read_count(of, "requests", requests)) return false;
  const auto hour = start_s / k_seconds_per_hour;
  if (hour > std::numeric_limits<ledger::hour_number>::max()) return false;
  return out.emplace(static_cast<ledger::hour_number>(hour), requests).second;
}

}  // namespace

std::string to_json(const ledger::traffic_summary& traffic) {
  std::string hours;
  for (const auto& [hour, requests] : traffic.requests_by_hour) {
    hours += fmt::format(R"({}{{"start_s":{},"requests":{}}})", hours.empty() ? "" : ",",
                         hour * k_seconds_per_hour, requests);
  }
  std::string targets;
  for (const auto& [key, counts] : traffic.by_target) {
    targets += targets.empty() ? R"({"model":)" : R"(,{"model":)";
    engine::text::append_quoted(targets, key.model);
    targets += R"(,"target":)";
    engine::text::append_quoted(targets, key.target);
    targets += fmt::format(R"(,"hosted":{})", counts.hosted);
    for (const auto& [name, count] : k_fields) targets += fmt::format(R"(,"{}":{})", name, counts.*count);
    targets += fmt::format(R"(,"cost_usd":{}}})", usd_text(counts.cost));
  }
  return fmt::format(R"({{"since_s":{},"until_s":{},"hours":[{}],"targets":[{}]}})", traffic.since_s,
                     traffic.until_s, hours, targets);
}

std::optional<ledger::traffic_summary> traffic_from_json(const std::string& text) {
  simdjson::dom::parser parser;
  element root;
  simdjson::dom::array hours;
  simdjson::dom::array targets;
  ledger::traffic_summary out;
  if (parser.parse(text).get(root) || root["hours"].get(hours) || root["targets"].get(targets)) return {};
  if (!read_count(root, "since_s", out.since_s) || !read_count(root, "until_s", out.until_s)) return {};
  if (hours.size() > k_entries_max || targets.size() > k_entries_max) return {};
  for (const auto entry : hours) {
    if (!read_hour(entry, out.requests_by_hour)) return {};
  }
  for (const auto entry : targets) {
    if (!read_target(entry, out.by_target)) return {};
  }
  return out;
}

}  // namespace weir::gateway::admin
