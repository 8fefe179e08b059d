#include "gateway/admin/key_json.hpp"

#include <fmt/format.h>

#include "engine/text/quote.hpp"
#include "gateway/auth/key_text.hpp"

namespace weir::gateway::admin {

namespace {

using engine::text::append_quoted;

constexpr double k_ns_per_s = 1e9;

std::string quoted(std::string_view text) {
  std::string out;
  append_quoted(out, text);
  return out;
}

std::string number_or_null(std::int64_t value) {
  return value == 0 ? "null" : std::to_string(value);
}

std::string usd_or_null(auth::usd_nano amount) {
  return amount == 0 ? "null" : usd_text(amount);
}

std::string to_json(const auth::key_limits& limits) {
  return fmt::format(
      R"({{"requests_per_min":{},"tokens_per_min":{},"concurrent":{},"usd_per_day":{},"usd_per_month":{}}})",
      number_or_null(limits.requests_per_min), number_or_null(limits.tokens_per_min),
      number_or_null(limits.concurrent), usd_or_null(limits.usd_per_day), usd_or_null(limits.usd_per_month));
}

std::string to_json(const std::optional<policy::limits::level>& level, std::int64_t limit) {
  if (!level) return "null";
  return fmt::format(R"({{"limit":{},"remaining":{},"resets_in_s":{:.3f}}})", limit, level->remaining,
                     static_cast<double>(level->reset_ns) / k_ns_per_s);
}

std::string to_json(const ledger::window_spend& window, auth::usd_nano limit) {
  return fmt::format(R"({{"window":{},"spent_usd":{},"reserved_usd":{},"limit_usd":{},"resets_in_s":{}}})",
                     quoted(window.label), usd_text(window.spent), usd_text(window.reserved),
                     usd_or_null(limit), window.resets_in_s);
}

std::string to_json(const ledger::ledger_counters& c) {
  return fmt::format(
      R"({{"commits":{},"operations":{},"reservations_open":{},"operations_waiting":{},)"
      R"("refused_budget":{},"overruns":{},"overrun_usd":{},"full_disk":{},"last_commit_us":{}}})",
      c.commits, c.operations, c.reservations_open, c.operations_waiting, c.refused_budget, c.overruns,
      usd_text(c.overrun), c.full_disk, c.last_commit_us);
}

std::string to_json(const ledger::recovery& r) {
  std::string keys;
  for (const auto& account : r.accounts) {
    keys += fmt::format(R"({}{{"key":{},"reservations":{},"charged_usd":{}}})", keys.empty() ? "" : ",",
                        quoted(account.account), account.reservations, usd_text(account.charged));
  }
  return fmt::format(R"({{"reservations":{},"charged_usd":{},"clock_behind_s":{},"keys":[{}]}})",
                     r.reservations_charged, usd_text(r.charged), r.clock_behind_s, keys);
}

}  // namespace

std::string usd_text(auth::usd_nano amount) {
  std::string out = fmt::format("{}.{:09}", amount / policy::limits::k_usd, amount % policy::limits::k_usd);
  out.erase(out.find_last_not_of('0') + 1);
  if (out.ends_with('.')) out.pop_back();
  return out;
}

std::string open_key_json(const auth::key_record& key, std::string_view source, std::int64_t now_s) {
  std::string models;
  for (const auto& model : key.terms.models) models += (models.empty() ? "" : ",") + quoted(model);
  const bool rotating = key.previous_digest && key.previous_until_s > now_s;
  return fmt::format(
      R"({{"id":{},"name":{},"tenant":{},"source":"{}","created_s":{},"revoked":{},"old_key_until_s":{},)"
      R"("models":[{}],"limits":{},"residency":"{}","priority":"{}","sharing":"{}","shadow":{})",
      quoted(key.id), quoted(key.name), quoted(key.tenant), source, number_or_null(key.created_s),
      key.revoked, number_or_null(rotating ? key.previous_until_s : 0), models, to_json(key.terms.limits),
      auth::to_text(key.terms.residency), auth::to_text(key.terms.priority), auth::to_text(key.terms.sharing),
      key.terms.shadow);
}

std::string to_json(const key_usage& usage, const auth::key_limits& limits) {
  std::string day = "null";
  std::string month = "null";
  if (usage.spend) {
    day = to_json(usage.spend->day, limits.usd_per_day);
    month = to_json(usage.spend->month, limits.usd_per_month);
  }
  return fmt::format(R"({{"running_requests":{},"requests":{},"tokens":{},"day":{},"month":{}}})",
                     usage.running, to_json(usage.requests, limits.requests_per_min),
                     to_json(usage.tokens, limits.tokens_per_min), day, month);
}

std::string to_json(const ledger_report& report) {
  const auto reason = health_word(report.health);
  std::string charged;
  for (const auto& c : report.charged) {
    charged += fmt::format(
        R"({}{{"id":{},"key":{},"request_id":{},"charged_usd":{},"reserved_at_s":{},"charged_at_s":{}}})",
        charged.empty() ? "" : ",", c.id, quoted(c.account), quoted(c.request_id), usd_text(c.amount),
        c.reserved_at_s, c.charged_at_s);
  }
  return fmt::format(R"({{"health":{{"ok":{},"reason":{},"detail":{}}},"counters":{},"recovered":{},)"
                     R"("charged":[{}]}})",
                     reason.empty(), reason.empty() ? "null" : quoted(reason),
                     reason.empty() ? "null" : quoted(report.health.detail), to_json(report.counters),
                     to_json(report.recovered), charged);
}

std::string_view health_word(const ledger::health_report& health) noexcept {
  if (!health.reason) return "";
  return *health.reason == ledger::fault::full_disk ? "full_disk" : "failed";
}

}  // namespace weir::gateway::admin
