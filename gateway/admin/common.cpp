#include "gateway/admin/common.hpp"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <ctime>

#include "gateway/admin/handlers.hpp"
#include "gateway/admin/key_body.hpp"
#include "gateway/awaited.hpp"
#include "gateway/http/syntax.hpp"
#include "gateway/relay/relay.hpp"

namespace weir::gateway::admin {

namespace {

constexpr std::chrono::milliseconds k_commit_margin{1000};  // for a change that began in time

error no_ledger() {
  return {
      errc::conflict,
      "keys can only be made and changed here with a ledger: set auth.ledger_dir to a folder and restart"};
}

error not_heard_of() {
  return {errc::ledger_unavailable,
          "the disk takes too long; whether the change will be made is not known: look again in a moment",
          {},
          limits::k_change_wait.count()};
}

}  // namespace

std::int64_t now_s() noexcept {
  return std::time(nullptr);
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = http::hex_digit(text[i + 1]);
    const int low = http::hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

result<std::string> path_name(const api::request_context& context) {
  auto name = percent_decode(context.path_part);
  if (!name) return fail(errc::bad_request, "a malformed %XX in the path");
  return std::move(*name);
}

std::optional<found_key> find_key(const limits::key_services& keys, std::string_view id) {
  const auto find = [&](const std::vector<auth::key_record>& in,
                        bool configured) -> std::optional<found_key> {
    const auto found = std::find_if(in.begin(), in.end(), [&](const auto& key) { return key.id == id; });
    if (found == in.end()) return std::nullopt;
    return found_key{*found, configured};
  };
  auto found = find(keys.ring.configured(), true);
  if (!found && keys.money) found = find(keys.money->keys(), false);
  return found;
}

error no_such_key() {
  return {errc::key_not_found, "no key with this id; GET /admin/v1/keys lists them"};
}

result<auth::key_record> changeable_key(const limits::key_services& keys, std::string_view id) {
  auto found = find_key(keys, id);
  if (!found) return std::unexpected(no_such_key());
  if (found->configured) {
    return fail(
        errc::conflict,
        "this key is in the configuration file, under auth.keys: change it there and reload (SIGHUP)");
  }
  return std::move(found->record);
}

task<result<std::string>> read_body(api::request_context& context) {
  if (!context.exchange.head().has_body) co_return std::string();
  result<std::string> body = co_await relay::read_json_body(context, k_body_bytes_max);
  co_return body;
}

task<result<limits::key_change>> commit(api::request_context& context, limits::key_writer::plan make) {
  auto* const writer = context.state.keys.writer.get();
  if (writer == nullptr) co_return std::unexpected(no_ledger());
  const io_executor executor = co_await asio::this_coro::executor;
  awaited<result<limits::key_change>> made(executor);
  writer->submit(std::move(make), made.giver());
  auto outcome = co_await made.wait(limits::k_change_wait + k_commit_margin);
  if (!outcome) co_return std::unexpected(not_heard_of());
  co_return std::move(*outcome);
}

task<void> finish(api::request_context& context, result<answer> made) {
  if (!made) {
    co_await relay::refuse(context, made.error());
    co_return;
  }
  http::reply reply{.status = made->status, .body = std::move(made->body)};
  reply.headers.emplace_back("cache-control", "no-store");
  co_await context.exchange.send(std::move(reply));
}

}  // namespace weir::gateway::admin
