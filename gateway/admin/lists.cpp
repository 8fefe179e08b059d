#include <algorithm>
#include <map>

#include "gateway/admin/common.hpp"
#include "gateway/admin/handlers.hpp"
#include "gateway/admin/key_json.hpp"
#include "gateway/admin/page.hpp"

namespace weir::gateway::admin {

namespace {

// The keys of the file come first, those of the ledger by id, so that a page's place holds while keys come
// and go.
std::map<std::string, found_key> by_place(const limits::key_services& keys) {
  std::map<std::string, found_key> out;
  for (auto& key : keys.ring.configured()) out.emplace("a" + key.id, found_key{key, true});
  if (!keys.money) return out;
  for (auto& key : keys.money->keys()) out.emplace("b" + key.id, found_key{key, false});
  return out;
}

}  // namespace

task<result<answer>> list_keys(api::request_context& context) {
  const auto asked = read_page(context.exchange.head().query);
  if (!asked) co_return std::unexpected(asked.error());
  const auto keys = by_place(context.state.keys);
  auto at = keys.upper_bound(asked->after);
  std::string body;
  std::string last;
  for (std::size_t n = 0; n < asked->limit && at != keys.end(); ++n, ++at) {
    const auto& [record, configured] = at->second;
    body += (body.empty() ? "" : ",") + open_key_json(record, configured ? "config" : "admin", now_s()) + '}';
    last = at->first;
  }
  const std::string next = at == keys.end() ? "null" : '"' + to_cursor(last) + '"';
  co_return answer{R"({"data":[)" + body + R"(],"next":)" + next + '}'};
}

task<result<answer>> show_ledger(api::request_context& context) {
  const auto* money = context.state.keys.money.get();
  if (money == nullptr) {
    co_return fail(errc::conflict, "there is no ledger: set auth.ledger_dir to a folder and restart");
  }
  const ledger_report report{.health = money->health(),
                             .counters = money->count(),
                             .recovered = money->recovered(),
                             .charged = money->charged()};
  co_return answer{to_json(report)};
}

}  // namespace weir::gateway::admin
