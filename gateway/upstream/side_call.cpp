#include "gateway/upstream/side_call.hpp"

#include <fmt/format.h>

#include <boost/asio/this_coro.hpp>
#include <charconv>
#include <utility>

#include "gateway/upstream/client_pool.hpp"
#include "gateway/upstream/dial.hpp"
#include "gateway/upstream/http_exchange.hpp"
#include "gateway/upstream/reply_reader.hpp"

namespace weir::gateway::upstream {

namespace {

using answered = std::pair<held_link, reply_start>;

task<std::expected<answered, std::string>> ask(const std::shared_ptr<const origin>& at, std::string_view head,
                                               std::string_view body, time_point deadline) {
  const io_executor executor = co_await asio::this_coro::executor;
  held_link link(client_pool::of(executor).take(*at));
  if (link) {
    auto reply = co_await exchange_heads(*link, at, head, body, deadline);
    if (reply) co_return answered(std::move(link), std::move(*reply));
    if (!reply.error().stale) co_return std::unexpected(std::move(reply.error().why.message));
  }
  auto dialed = co_await dial(at, deadline);
  if (!dialed) co_return std::unexpected(std::move(dialed.error().message));
  link = held_link(std::move(*dialed));
  auto reply = co_await exchange_heads(*link, at, head, body, deadline);
  if (reply) co_return answered(std::move(link), std::move(*reply));
  co_return std::unexpected(std::move(reply.error().why.message));
}

std::int64_t retry_after_s(const reply_start& start) {
  for (const auto& [name, value] : start.passed_on) {
    if (name != "retry-after") continue;
    std::int64_t seconds = 0;
    const auto [end, ec] = std::from_chars(value.data(), value.data() + value.size(), seconds);
    if (ec == std::errc() && end == value.data() + value.size() && seconds > 0) return seconds;
  }
  return 0;
}

}  // namespace

task<std::expected<side_reply, std::string>> call_aside(std::shared_ptr<const origin> at,
                                                        std::string_view head, std::string_view body,
                                                        time_point deadline, std::size_t body_bytes_max) {
  auto reply = co_await ask(at, head, body, deadline);
  if (!reply) co_return std::unexpected(std::move(reply.error()));
  auto& [link, start] = *reply;
  side_reply out{.status = start.status, .retry_after_s = retry_after_s(start), .body = {}};
  reply_reader reader(std::move(link), start, at);
  while (true) {
    std::string_view piece;
    const auto outcome = co_await reader.next(deadline, body_bytes_max, piece);
    if (outcome == read_outcome::end) break;
    if (outcome == read_outcome::timeout) co_return std::unexpected("it did not answer in time");
    if (outcome == read_outcome::broken) co_return std::unexpected(fmt::format("it {}", reader.why()));
    if (piece.size() > body_bytes_max - out.body.size()) co_return std::unexpected("it says too much");
    out.body.append(piece);
  }
  co_return out;
}

}  // namespace weir::gateway::upstream
