#include <charconv>
#include <limits>

#include "gateway/admin/common.hpp"
#include "gateway/admin/handlers.hpp"
#include "gateway/admin/traffic_json.hpp"

namespace weir::gateway::admin {

namespace {

struct asked {
  std::int64_t since_s = 0;
  std::string model;
};

result<void> read_parameter(std::string_view name, std::string_view value, asked& out) {
  if (name == "since") {
    const char* const end = value.data() + value.size();
    const auto [stop, ec] = std::from_chars(value.data(), end, out.since_s);
    if (ec == std::errc() && stop == end && out.since_s >= 0) return {};
    return fail(errc::bad_request, "'since' must be a Unix time in seconds", "since");
  }
  auto model = percent_decode(value);
  if (!model || model->empty())
    return fail(errc::bad_request, "'model' must be the name of a model", "model");
  out.model = std::move(*model);
  return {};
}

result<asked> read_query(std::string_view query) {
  asked out;
  std::string seen;
  while (!query.empty()) {
    const auto part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    const auto equals = std::min(part.find('='), part.size());
    const auto name = part.substr(0, equals);
    const auto mark = '&' + std::string(name) + '&';
    if ((name != "since" && name != "model") || seen.find(mark) != seen.npos) {
      return fail(errc::bad_request, "the query knows since and model, each once");
    }
    seen += mark;
    const auto value = part.substr(std::min(equals + 1, part.size()));
    if (auto read = read_parameter(name, value, out); !read) return std::unexpected(read.error());
  }
  return out;
}

}  // namespace

task<result<answer>> show_traffic(api::request_context& context) {
  const auto asked = read_query(context.exchange.head().query);
  if (!asked) co_return std::unexpected(asked.error());
  auto& keys = context.state.keys;
  if (!keys.money) {
    co_return fail(errc::conflict, "there is no ledger: set auth.ledger_dir to a folder and restart");
  }
  keys.write_traffic();  // what ended since the last write counts too
  co_return answer{to_json(keys.money->traffic(asked->model, asked->since_s))};
}

}  // namespace weir::gateway::admin
