#include "gateway/upstream/http_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gateway/http/syntax.hpp"

namespace weir::gateway::upstream {

namespace {

using observe::attempt_outcome;
using clock = std::chrono::steady_clock;

// Of a target's reply head, what says something about this answer. Everything else, its cookies and its own
// limits first of all, stays between it and us.
constexpr std::array<std::string_view, 5> k_passed_on{"retry-after", "retry-after-ms", "x-should-retry",
                                                      "openai-processing-ms", "openai-version"};

std::string to_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

reply_start take_head(http::connection& link, const http::reply_parser& parser) {
  const std::string_view unread = link.unread();
  reply_start out;
  out.status = parser.status();
  out.framing = parser.framing();
  out.content_length = parser.content_length();
  out.keep_alive = parser.keep_alive();
  for (std::size_t i = 0; i < parser.field_count(); ++i) {
    const auto [name, value] = parser.field(i, unread);
    if (http::iequals(name, "content-type")) {
      out.content_type = value;
    } else if (http::iequals(name, "content-encoding")) {
      out.content_encoding = to_lower(value);
    } else {
      const auto known = std::find_if(k_passed_on.begin(), k_passed_on.end(),
                                      [&](std::string_view n) { return http::iequals(n, name); });
      if (known != k_passed_on.end()) out.passed_on.emplace_back(*known, std::string(value));
    }
  }
  link.consume(parser.head_bytes());
  return out;
}

using policy::failover::ending;

exchange_failure broken(const origin& target, std::string_view what, ending how = ending::malformed) {
  return {{errc::upstream_failed, fmt::format("target '{}' {}", target.name, what), {}},
          attempt_outcome::broken,
          how};
}

exchange_failure too_late(const origin& target, std::string_view what, ending how) {
  return {{errc::deadline_exceeded, fmt::format("target '{}' {}", target.name, what), {}},
          attempt_outcome::timeout,
          how};
}

task<std::expected<reply_start, exchange_failure>> read_head(http::connection& link,
                                                             std::shared_ptr<const origin> at,
                                                             time_point deadline, patience how) {
  const origin& target = *at;
  http::reply_parser parser;
  std::size_t interim_count = 0;
  bool any_byte = false;
  while (true) {
    const auto state = parser.parse(link.unread());
    any_byte = any_byte || !link.unread().empty();
    if (state == http::parse_state::reject) {
      co_return std::unexpected(broken(target, fmt::format("broke HTTP: {}", parser.reason())));
    }
    if (state == http::parse_state::ok) {
      if (parser.status() >= 200) co_return take_head(link, parser);
      if (++interim_count > http::k_interim_replies_max) {
        co_return std::unexpected(broken(target, "broke HTTP: too many interim replies"));
      }
      link.consume(parser.head_bytes());
      parser.reset();
      continue;
    }
    const bool small = link.unread().size() < http::k_idle_buffer_bytes / 2;
    const std::size_t room = small ? http::k_idle_buffer_bytes : http::k_reply_head_buffer_bytes;
    const auto outcome = co_await wait_patiently(link, at, how, deadline, room);
    if (outcome.frozen) {
      co_return std::unexpected(too_late(target, "hangs, and answers no probe", ending::frozen));
    }
    if (outcome.what == http::wait_outcome::timeout) {
      co_return std::unexpected(too_late(target, "did not answer in time", ending::first_content_timeout));
    }
    if (outcome.what != http::wait_outcome::closed) continue;
    auto failure = broken(target, "closed the connection before it answered", ending::reset_before_head);
    failure.stale = !any_byte;
    co_return std::unexpected(std::move(failure));
  }
}

}  // namespace

task<std::expected<reply_start, exchange_failure>> exchange_heads(http::connection& link,
                                                                  std::shared_ptr<const origin> target,
                                                                  std::string_view head,
                                                                  std::string_view body, time_point deadline,
                                                                  patience how) {
  // A target may refuse a request before it has read all of it; that answer must not be lost.
  link.expect_reply(deadline);
  const std::array<asio::const_buffer, 2> buffers{asio::buffer(head), asio::buffer(body)};
  const bool sent = co_await link.write(buffers);
  auto reply = co_await read_head(link, target, sent ? deadline : clock::now(), how);
  if (sent || reply) {
    if (reply && !sent) reply->keep_alive = false;
    co_return reply;
  }
  if (link.write_timed_out()) {
    co_return std::unexpected(
        too_late(*target, "did not take the request in time", ending::first_content_timeout));
  }
  auto failure = broken(*target, "closed the connection within the request", ending::reset_before_head);
  failure.stale = reply.error().stale || reply.error().outcome == attempt_outcome::timeout;
  co_return std::unexpected(std::move(failure));
}

}  // namespace weir::gateway::upstream
