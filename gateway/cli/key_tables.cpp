#include "gateway/cli/key_tables.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <cstdio>
#include <string_view>

#include "engine/text/printable.hpp"

namespace weir::gateway::cli {

namespace {

using simdjson::dom::element;

std::string text(element of, std::string_view key) {
  std::string_view out;
  return of[key].get(out) ? std::string() : engine::text::printable(out);
}

// As the API wrote it; "-" for null or nothing.
std::string number(element of, std::string_view key) {
  element value;
  if (of[key].get(value) || value.is_null()) return "-";
  return engine::text::printable(simdjson::minify(value));
}

// In plain decimals, of which no more than say something.
std::string usd(element of, std::string_view key) {
  double value = 0;
  if (of[key].get(value)) return number(of, key);
  auto out = fmt::format("{:.9f}", value);
  out.erase(out.find_last_not_of('0') + 1);
  if (out.back() == '.') out.pop_back();
  return out;
}

bool flag(element of, std::string_view key) {
  bool out = false;
  return !of[key].get(out) && out;
}

std::string models(element key) {
  simdjson::dom::array list;
  std::string out;
  if (key["models"].get(list)) return out;
  for (const auto name : list) {
    std::string_view one;
    if (!name.get(one)) out += fmt::format("{}{}", out.empty() ? "" : ", ", engine::text::printable(one));
  }
  return out.empty() ? "all" : out;
}

std::string state(element key) {
  if (flag(key, "revoked")) return "revoked";
  return number(key, "old_key_until_s") == "-" ? "open" : "rotating";
}

void print_terms(std::FILE* to, element key) {
  const auto line = [to](const char* name, const std::string& value) {
    fmt::print(to, "{:<18} {}\n", name, value);
  };
  line("id", text(key, "id"));
  line("name", text(key, "name"));
  line("tenant", text(key, "tenant"));
  line("source", text(key, "source"));
  line("state", state(key));
  line("models", models(key));
  element limits;
  if (!key["limits"].get(limits)) {
    for (const auto* name :
         {"requests_per_min", "tokens_per_min", "concurrent", "usd_per_day", "usd_per_month"}) {
      line(name, number(limits, name));
    }
  }
  for (const auto* name : {"residency", "priority", "sharing"}) line(name, text(key, name));
  line("shadow", flag(key, "shadow") ? "yes" : "no");
}

void print_usage(element usage) {
  fmt::print("{:<18} {}\n", "running", number(usage, "running_requests"));
  for (const auto* name : {"requests", "tokens"}) {
    element level;
    if (usage[name].get(level) || level.is_null()) continue;
    fmt::print("{:<18} {} of {} left this minute, all of it in {} s\n", name, number(level, "remaining"),
               number(level, "limit"), number(level, "resets_in_s"));
  }
  for (const auto* name : {"day", "month"}) {
    element window;
    if (usage[name].get(window) || window.is_null()) continue;
    const auto limit = usd(window, "limit_usd");
    fmt::print("{:<18} {}: ${} spent, ${} reserved{}, resets in {} s\n", name, text(window, "window"),
               usd(window, "spent_usd"), usd(window, "reserved_usd"),
               limit == "-" ? std::string() : fmt::format(" of ${}", limit), number(window, "resets_in_s"));
  }
}

}  // namespace

bool print_keys(const std::string& list) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  simdjson::dom::array keys;
  if (parser.parse(list).get(root) || root["data"].get(keys)) return false;
  constexpr auto k_row = "{:<28} {:<20} {:<14} {:<7} {:<8} {:>8} {:>10} {:>6} {:>10} {:>10}\n";
  fmt::print(k_row, "id", "name", "tenant", "source", "state", "req/min", "tok/min", "at once", "USD/day",
             "USD/month");
  for (const auto key : keys) {
    element limits;
    if (key["limits"].get(limits)) return false;
    fmt::print(k_row, text(key, "id"), text(key, "name"), text(key, "tenant"), text(key, "source"),
               state(key), number(limits, "requests_per_min"), number(limits, "tokens_per_min"),
               number(limits, "concurrent"), number(limits, "usd_per_day"), number(limits, "usd_per_month"));
  }
  return true;
}

bool print_key(const std::string& key) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(key).get(root)) return false;
  print_terms(stdout, root);
  element usage;
  if (!root["usage"].get(usage)) print_usage(usage);
  return true;
}

bool print_new_key(const std::string& key) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  std::string_view secret;
  if (parser.parse(key).get(root) || root["key"].get(secret)) return false;
  print_terms(stderr, root);
  fmt::print(stderr, "\nthe key, shown this once:\n");
  std::fflush(stderr);
  fmt::print("{}\n", engine::text::printable(secret));
  return true;
}

bool print_tenants(const std::string& list) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  simdjson::dom::array tenants;
  if (parser.parse(list).get(root) || root["data"].get(tenants)) return false;
  fmt::print("{:<28} {:>8} {:<8} {:>6}\n", "tenant", "weight", "source", "keys");
  for (const auto tenant : tenants) {
    fmt::print("{:<28} {:>8} {:<8} {:>6}\n", text(tenant, "name"), number(tenant, "weight"),
               text(tenant, "source"), number(tenant, "keys"));
  }
  return true;
}

}  // namespace weir::gateway::cli
