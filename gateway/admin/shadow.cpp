#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "gateway/admin/common.hpp"
#include "gateway/admin/handlers.hpp"
#include "gateway/admin/page.hpp"
#include "gateway/shadow/pair_json.hpp"

namespace weir::gateway::admin {

namespace {

constexpr std::size_t k_seen_per_page = 10'000;  // pairs that a page looks at, whatever of them it shows
constexpr std::size_t k_seen_at_once = 500;      // under the ledger's lock

struct asked_pairs {
  page which;
  std::string model;         // empty: all
  std::int64_t since_s = 0;  // Unix time
};

std::optional<std::int64_t> to_number(std::string_view text) {
  std::int64_t out = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data(), end, out);
  if (ec != std::errc() || stop != end || out < 0) return std::nullopt;
  return out;
}

// model and since, each once; the rest is a page's.
result<asked_pairs> read_query(std::string_view query) {
  asked_pairs out;
  std::string rest;
  bool has_model = false, has_since = false;
  while (!query.empty()) {
    const auto part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    if (part.starts_with("model=") && !std::exchange(has_model, true)) {
      auto name = percent_decode(part.substr(part.find('=') + 1));
      if (!name || name->empty()) return fail(errc::bad_request, "'model' must be a model's name", "model");
      out.model = std::move(*name);
    } else if (part.starts_with("since=") && !std::exchange(has_since, true)) {
      const auto since = to_number(part.substr(part.find('=') + 1));
      if (!since) return fail(errc::bad_request, "'since' must be a Unix time in seconds", "since");
      out.since_s = *since;
    } else if (part.starts_with("model") || part.starts_with("since")) {
      return fail(errc::bad_request, "the query knows model, since, limit and cursor, each once");
    } else {
      rest += (rest.empty() ? "" : "&") + std::string(part);
    }
  }
  auto which = read_page(rest);
  if (!which) return std::unexpected(which.error());
  out.which = std::move(*which);
  return out;
}

struct found_pairs {
  std::string body;
  std::size_t count = 0;
  std::size_t seen = 0;
  std::optional<std::uint64_t> last;
  bool more = true;
};

void add(found_pairs& out, const std::vector<ledger::stored_pair>& some, const asked_pairs& asked) {
  for (const auto& [place, record] : some) {
    if (out.count == asked.which.limit || out.seen == k_seen_per_page) return;
    ++out.seen;
    out.last = place;
    if (record->at_s < asked.since_s || (!asked.model.empty() && record->model != asked.model)) continue;
    ++out.count;
    out.body += (out.body.empty() ? "" : ",") + shadow::to_json(*record);
  }
}

}  // namespace

task<result<answer>> list_pairs(api::request_context& context) {
  const auto* money = context.state.keys.money.get();
  if (money == nullptr) {
    co_return fail(errc::conflict, "there is no ledger: set auth.ledger_dir to a folder and restart");
  }
  const auto asked = read_query(context.exchange.head().query);
  if (!asked) co_return std::unexpected(asked.error());
  found_pairs out;
  if (!asked->which.after.empty()) {
    const auto place = to_number(asked->which.after);
    if (!place) co_return fail(errc::bad_request, "'cursor' is not one of ours; begin without it", "cursor");
    out.last = static_cast<std::uint64_t>(*place);
  }
  while (out.more && out.count < asked->which.limit && out.seen < k_seen_per_page) {
    const auto some = money->pairs(out.last, k_seen_at_once);
    add(out, some, *asked);
    out.more = some.size() == k_seen_at_once || (!some.empty() && out.last != some.back().place);
  }
  const std::string next = !out.more ? "null" : '"' + to_cursor(std::to_string(*out.last)) + '"';
  co_return answer{R"({"data":[)" + out.body + R"(],"next":)" + next + '}'};
}

}  // namespace weir::gateway::admin
