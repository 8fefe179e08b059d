#include "tests/gateway/http/echo_dispatcher.hpp"

#include <stdexcept>
#include <utility>

namespace weir::gateway::http::testing {
namespace {

int status_of(errc code) {
  switch (code) {
    case errc::body_too_large:
      return 413;
    case errc::overloaded:
      return 503;
    case errc::body_timeout:
      return 408;
    case errc::bad_framing:
      return 400;
    case errc::headers_too_large:
      return 431;
    default:
      return 500;
  }
}

reply text(std::string body) {
  reply r;
  r.content_type = "text/plain";
  r.body = std::move(body);
  return r;
}

}  // namespace

std::string echo_dispatcher::error_body(int status, std::string_view message) const {
  return "{\"error\":{\"code\":" + std::to_string(status) + ",\"message\":\"" + std::string(message) + "\"}}";
}

reply echo_dispatcher::cut_reply(const exchange&, const error& why) const {
  reply r;
  r.status = 503;
  r.body = error_body(503, why.message);
  return r;
}

task<void> echo_dispatcher::serve(exchange& ex) {
  ++served;
  const std::string& path = ex.head().path;
  if (path == "/echo") {
    co_await echo(ex);
  } else if (path == "/stream") {
    co_await stream(ex, true);
  } else if (path == "/abort") {
    co_await stream(ex, false);
  } else if (path == "/wait") {
    co_await wait(ex);
  } else if (path == "/flood") {
    co_await flood(ex);
  } else if (path == "/throw") {
    throw std::runtime_error("thrown by a test");
  } else if (path == "/split") {
    reply r = text("split");
    r.headers.emplace_back("location", "/a\r\nset-cookie: b");
    co_await ex.send(std::move(r));
  } else if (path == "/no-content") {
    reply r = text("dropped");
    r.status = 204;
    co_await ex.send(std::move(r));
  } else if (path != "/nothing") {
    reply r = text("hello " + std::string(ex.head().query));
    co_await ex.send(std::move(r));
  }
}

task<void> echo_dispatcher::echo(exchange& ex) {
  result<std::string> body = co_await ex.read_body(body_limit_bytes);
  reply r;
  if (body) {
    r = text(std::move(*body));
  } else {
    if (body.error().code == errc::client_gone) co_return;
    r.status = status_of(body.error().code);
    r.body = error_body(r.status, body.error().message);
  }
  co_await ex.send(std::move(r));
}

task<void> echo_dispatcher::stream(exchange& ex, bool whole) {
  header_list headers;
  headers.emplace_back("x-stream", "yes");
  result<void> sent = ex.start_stream(200, "text/event-stream", std::move(headers));
  for (int i = 0; i < 3 && sent; ++i) {
    const std::string event = "data: " + std::to_string(i) + "\n\n";
    sent = co_await ex.write(event);
  }
  if (!sent) co_return;
  if (whole) {
    co_await ex.finish();
  } else {
    ex.abort();
  }
}

task<void> echo_dispatcher::wait(exchange& ex) {
  if (ex.head().has_body) {
    const result<std::string> body = co_await ex.read_body(body_limit_bytes);
    if (!body) co_return;
  }
  struct guard {
    echo_dispatcher& owner;
    bool finished = false;
    ~guard() {
      if (!finished) ++owner.cancelled;
      --owner.waiting;
    }
  } leaving{*this};
  ++waiting;
  io_timer timer(co_await asio::this_coro::executor);
  const bool brief = ex.head().query == "brief";
  timer.expires_after(brief ? std::chrono::milliseconds(100) : std::chrono::hours(1));
  co_await timer.async_wait(use_task);
  leaving.finished = true;
  reply r = text("waited");
  co_await ex.send(std::move(r));
}

task<void> echo_dispatcher::flood(exchange& ex) {
  result<void> sent = ex.start_stream(200, "text/plain", {});
  const std::string block(64 * 1024, 'x');
  while (sent) sent = co_await ex.write(block);
  if (sent.error().code == errc::client_gone) ++cancelled;
}

}  // namespace weir::gateway::http::testing
