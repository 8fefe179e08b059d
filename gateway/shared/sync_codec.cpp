#include "gateway/shared/sync_codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace weir::gateway::shared {

namespace {

using kind = store_value::kind;

constexpr std::int64_t k_ns_per_us = 1000;
constexpr std::size_t k_fields = 17;
// A gateway each; more are not repeated to a store that starts anew.
constexpr std::size_t k_claims_max = 256;

class arguments {
 public:
  explicit arguments(std::vector<std::string>& out) : out_(out) {}

  void add(std::int64_t number) { out_.push_back(std::to_string(number)); }
  void add(std::string text) { out_.push_back(std::move(text)); }

  void add(std::int64_t limit, const policy::limits::rate_order& order) {
    for (const auto n : {limit, order.need, order.want, order.owed}) add(n);
    std::string refunds;
    for (const auto& r : order.refunds) refunds += fmt::format("{}:{},", r.units, r.until);
    add(std::move(refunds));
  }

  void add(const window_order& order) {
    const bool said = !order.label.empty();
    for (const auto n :
         {order.limit, said ? order.claim.hold : -1, order.claim.need, order.claim.want, order.claim.known}) {
      add(n);
    }
    add(order.seeds);
  }

 private:
  std::vector<std::string>& out_;
};

std::int64_t number_in(const store_value& value) {
  if (value.is == kind::integer) return value.integer;
  std::int64_t out = 0;
  const char* const end = value.text.data() + value.text.size();
  const auto [stop, ec] = std::from_chars(value.text.data(), end, out);
  return ec == std::errc() && stop == end ? out : -1;
}

// A cell is never ahead by much more than a minute and what was owed; nothing here may overflow.
constexpr std::int64_t k_ahead_max_us = 1'000'000'000'000;
constexpr std::int64_t k_grace_max_ms = 60'000;

policy::limits::rate_grant rate_in(const std::vector<store_value>& all, std::size_t at) {
  const auto ahead_us = std::clamp<std::int64_t>(number_in(all[at + 2]), 0, k_ahead_max_us);
  const auto units = std::min(number_in(all[at]), policy::limits::k_rate_max);
  return {.units = units, .until = number_in(all[at + 1]), .ahead_ns = ahead_us * k_ns_per_us};
}

window_grant window_in(const std::vector<store_value>& all, std::size_t at) {
  window_grant out{.claim = number_in(all[at]), .total = number_in(all[at + 1])};
  const auto& claims = all[at + 2].list;
  for (std::size_t i = 0; i + 1 < claims.size() && i < 2 * k_claims_max; i += 2) {
    out.claims += fmt::format("{}={},", claims[i].text, claims[i + 1].text);
  }
  return out;
}

std::int64_t per_minute(std::int64_t limit) {
  return std::min(limit, policy::limits::k_rate_max);
}

}  // namespace

std::vector<std::string> sync_command(const sync_context& who, const key_order& order, std::string_view verb,
                                      std::string_view script) {
  const auto name = [&](std::string_view what, const std::string& label = {}) {
    return fmt::format("{}{}:{}{}{}", who.prefix, what, order.key, label.empty() ? "" : ":", label);
  };
  std::vector<std::string> out{std::string(verb),
                               std::string(script),
                               "5",
                               who.prefix + "site",
                               name("r"),
                               name("c"),
                               name("m", order.day.label),
                               name("m", order.month.label),
                               who.gateway,
                               who.epoch,
                               who.session};
  arguments more(out);
  more.add(who.lease_ms);
  more.add(who.grace_ms);
  more.add(per_minute(order.limits.requests_per_min), order.requests);
  more.add(per_minute(order.limits.tokens_per_min), order.tokens);
  for (const auto n : {order.limits.concurrent, order.slots.running, order.slots.want}) more.add(n);
  more.add(order.day);
  more.add(order.month);
  return out;
}

key_order probe_order() {
  key_order out{.key = " probe"};
  out.limits = {.requests_per_min = policy::limits::k_rate_max, .concurrent = 1};
  out.requests.owed = 1;
  out.slots = {.running = 1, .want = 1};
  out.day.label = "probe";
  return out;
}

std::expected<key_grant, sync_failure> read_grant(const store_value& reply) {
  using failure = sync_failure::kind;
  if (reply.is == kind::error) return std::unexpected(sync_failure{failure::refused, reply.text});
  if (reply.is != kind::list || reply.list.empty()) return std::unexpected(sync_failure{});
  const auto& all = reply.list;
  const auto status = number_in(all[0]);
  if (status == 0) return std::unexpected(sync_failure{failure::stale, {}});
  if (status == 2) return std::unexpected(sync_failure{failure::lost, {}});
  if (status != 1 || all.size() != k_fields) return std::unexpected(sync_failure{});
  key_grant out{.store_us = number_in(all[1]),
                .grace_ms = std::clamp<std::int64_t>(number_in(all[2]), 0, k_grace_max_ms),
                .requests = rate_in(all, 3),
                .tokens = rate_in(all, 6),
                .slots = number_in(all[9]),
                .slots_free = number_in(all[10]),
                .day = window_in(all, 11),
                .month = window_in(all, 14)};
  for (const auto n : {out.store_us, out.requests.units, out.tokens.units, out.slots, out.day.claim,
                       out.month.claim, out.day.total, out.month.total}) {
    if (n < 0) return std::unexpected(sync_failure{});
  }
  return out;
}

}  // namespace weir::gateway::shared
