#include "gateway/http/session.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <utility>

#include "gateway/task_group.hpp"

namespace weir::gateway::http {
namespace {

namespace beast_http = boost::beast::http;

peer_info describe_peer(const tcp_socket& socket, bool tls) {
  error_code ec;
  const auto endpoint = socket.remote_endpoint(ec);
  if (ec) return {.address = {}, .loopback = false, .tls = tls};
  asio::ip::address address = endpoint.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  return {.address = address.to_string(), .loopback = address.is_loopback(), .tls = tls};
}

beast_http::verb to_verb(request_method method) noexcept {
  switch (method) {
    case request_method::get:
      return beast_http::verb::get;
    case request_method::head:
      return beast_http::verb::head;
    case request_method::post:
      return beast_http::verb::post;
    case request_method::put:
      return beast_http::verb::put;
    case request_method::patch:
      return beast_http::verb::patch;
    case request_method::delete_:
      return beast_http::verb::delete_;
    case request_method::options:
      return beast_http::verb::options;
  }
  return beast_http::verb::unknown;
}

bool is_abort(const std::exception_ptr& fault, std::string& what) {
  try {
    std::rethrow_exception(fault);
  } catch (const boost::system::system_error& e) {
    if (e.code() == asio::error::operation_aborted) return true;
  } catch (...) {
  }
  what = describe(fault);
  return false;
}

void count(std::atomic<std::uint64_t>& counter) {
  counter.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

session::session(tcp_socket socket, asio::ssl::context* tls, const session_context& context)
    : context_(context),
      signal_(std::make_shared<asio::cancellation_signal>()),
      peer_(describe_peer(socket, tls != nullptr)),
      link_(std::make_shared<connection>(std::move(socket), tls, context.settings)) {}

task<void> session::run() {
  co_await accept_cancellation();
  turn last = turn::abrupt;
  std::exception_ptr fault;
  try {
    last = co_await serve();
  } catch (...) {
    fault = std::current_exception();
  }
  link_->unwatch();
  co_await accept_cancellation();  // a cancelled session still closes in order
  std::string what;
  if (fault && !is_abort(fault, what)) context_.report("session: " + what);
  if (last == turn::graceful && !reset_) co_await link_->close_gracefully();
  if (reset_) link_->reset();
  link_->close();
}

task<session::turn> session::serve() {
  const bool secured = co_await link_->handshake(asio::ssl::stream_base::server);
  if (!secured) {
    count(context_.counters.handshake_failures);
    co_return turn::abrupt;
  }
  turn now = turn::next;
  while (now == turn::next) {
    now = co_await read_head();
    if (now == turn::next) now = co_await serve_one();
  }
  co_return now;
}

task<session::turn> session::read_head() {
  using clock = connection::clock;
  const http_settings& settings = context_.settings;
  parser_.reset();
  bool begun = false;
  auto deadline = clock::now() + (request_count_ == 0 ? settings.head_timeout : settings.keep_alive_idle);
  while (true) {
    const std::string_view unread = link_->unread();
    const parse_state state = parser_.parse(unread);
    idle_ = unread.empty();
    if (state == parse_state::ok) co_return turn::next;
    if (state == parse_state::reject) {
      const auto [status, reason] = parser_.rejected();
      co_return co_await refuse(status, reason);
    }
    if (!idle_ && !std::exchange(begun, true)) deadline = clock::now() + settings.head_timeout;
    if (idle_ && draining_) {
      if (request_count_ > 0) co_return turn::abrupt;
      // A connection accepted a moment ago has its request on the way.
      deadline = std::min(deadline, clock::now() + k_drain_first_byte);
    }
    const bool small = unread.size() < k_idle_buffer_bytes / 2;
    const std::size_t bytes_max = small ? k_idle_buffer_bytes : k_head_buffer_bytes;
    const wait_outcome outcome = co_await link_->wait_bytes(deadline, bytes_max);
    if (outcome == wait_outcome::closed) co_return turn::abrupt;
    if (outcome != wait_outcome::timeout) continue;
    if (idle_) co_return turn::abrupt;
    count(context_.counters.head_timeouts);
    co_return co_await refuse(408, "the request head did not arrive in time");
  }
}

session_exchange::request session::take_request() {
  const std::string_view unread = link_->unread();
  session_exchange::request out;
  out.head.method = to_verb(parser_.method());
  out.head.path = parser_.path(unread);
  out.head.query = parser_.query(unread);
  for (std::size_t i = 0; i < parser_.field_count(); ++i) {
    const field_view field = parser_.field(i, unread);
    if (!is_hop_by_hop(field.name)) out.head.fields.insert(field.name, field.value);
  }
  out.head.has_body = parser_.framing() != body_framing::none;
  out.body = {.framing = parser_.framing(),
              .content_length = parser_.content_length(),
              .expect_continue = parser_.expect_continue()};
  out.http_1_0 = parser_.http_1_0();
  out.keep_alive = parser_.keep_alive() && ++request_count_ < context_.settings.requests_per_connection;
  link_->consume(parser_.head_bytes());
  return out;
}

task<session::turn> session::serve_one() {
  session_exchange ex(*link_, context_, peer_, take_request(), draining_, *signal_);
  std::exception_ptr fault;
  running_ = &ex;
  try {
    co_await context_.handler.serve(ex);
  } catch (...) {
    fault = std::current_exception();
  }
  running_ = nullptr;
  link_->unwatch();
  if (link_->gone()) {
    count(context_.counters.disconnects);
    co_return turn::abrupt;
  }
  std::string what;
  if (fault) {
    if (is_abort(fault, what)) {
      co_await accept_cancellation();
      co_await ex.explain_cut();
      co_return ex.cut_for() != nullptr ? turn::graceful : turn::abrupt;
    }
    count(context_.counters.handler_faults);
    context_.report("handler: " + what);
  }
  const bool again = co_await ex.conclude();
  reset_ = ex.aborted() && ex.close_delimited();
  if (ex.aborted()) co_return turn::abrupt;
  co_return again && !fault ? turn::next : turn::graceful;
}

task<session::turn> session::refuse(int status, std::string_view reason) {
  count(context_.counters.rejected_heads);
  const std::string message = "the request was refused: " + std::string(reason);
  const std::string body = context_.handler.error_body(status, message);
  const std::string request_id = context_.stamps.request_id();
  response_head described;
  described.status = status;
  described.content_type = "application/json";
  described.request_id = request_id;
  described.date = context_.stamps.date();
  described.content_length = body.size();
  described.close = true;
  header_list headers;
  if (status == 405) headers.emplace_back("allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
  const auto head = format_head(described, headers);
  if (!head) co_return turn::abrupt;
  const std::string whole = *head + body;
  const std::array<asio::const_buffer, 1> buffers{asio::buffer(whole)};
  const bool sent = co_await link_->write(buffers);
  co_return sent ? turn::graceful : turn::abrupt;
}

void session::begin_drain() {
  draining_ = true;
  if (idle_) link_->interrupt();
}

void session::cut(const error& why) {
  if (running_ != nullptr) return running_->cut(why);
  signal_->emit(asio::cancellation_type::all);
}

}  // namespace weir::gateway::http
