#include "loadtest/chaos/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstdio>

namespace weir::loadtest::chaos {

namespace {

namespace asio = boost::asio;

constexpr auto k_tuple = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t k_added_bytes = 8;

std::chrono::steady_clock::duration milliseconds(double value) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double, std::milli>(value));
}

void rethrow(std::exception_ptr fault) {
  if (fault) std::rethrow_exception(fault);
}

}  // namespace

session::session(proxy_state& state, socket client, std::uint64_t number)
    : state_(state),
      number_(number),
      client_(std::move(client)),
      server_(client_.get_executor()),
      plan_(draw_plan(state.options, state.random)),
      to_client_{direction::to_client, server_, client_, asio::steady_timer(client_.get_executor())},
      to_server_{direction::to_server, client_, server_, asio::steady_timer(client_.get_executor())} {}

void session::log(const std::string& what) const {
  if (!state_.options.verbose) return;
  fmt::print(stderr, "#{} {} ({} bytes to the client, {} to the server)\n", number_, what, to_client_.passed,
             to_server_.passed);
}

asio::awaitable<void> session::run(asio::ip::tcp::endpoint server) {
  boost::system::error_code error;
  client_.set_option(asio::ip::tcp::no_delay(true), error);
  if (plan_.refuse) {
    ++state_.done[act::refuse];
    close(true);
    log("refused");
    co_return;
  }
  const auto [failed] = co_await server_.async_connect(server, k_tuple);
  if (failed) {
    ++state_.unreachable;
    close(true);
    log("reset: the server is unreachable: " + failed.message());
    co_return;
  }
  server_.set_option(asio::ip::tcp::no_delay(true), error);
  log(plan_.touched ? "opened" : "opened, to be left alone");
  spawn(to_server_);
  co_await pump(to_client_);
}

void session::spawn(lane& l) {
  asio::co_spawn(client_.get_executor(), pump(l),
                 [self = shared_from_this()](std::exception_ptr fault) { rethrow(fault); });
}

asio::awaitable<void> session::while_frozen() {
  while (state_.frozen && open_) co_await state_.thaw.async_wait(k_tuple);
}

asio::awaitable<void> session::pump(lane& l) {
  const auto self = shared_from_this();
  while (open_) {
    co_await while_frozen();
    const auto [error, size] = co_await l.from.async_read_some(asio::buffer(l.block), k_tuple);
    if (!open_) co_return;
    if (error && error != asio::error::eof) {
      log("a side reset the connection");
      close(true);
      co_return;
    }
    if (error) {
      if (l.to == direction::to_client && !l.dropped && plan_.touched && !state_.options.add_at_end.empty()) {
        const auto& extra = state_.options.add_at_end;
        ++state_.ends_extended;
        co_await send(l, extra.data(), extra.size());
      }
      if (!open_) co_return;
      if (!l.dropped) l.into.shutdown(socket::shutdown_send, l.ignored);
      log(l.to == direction::to_client ? "the server ended" : "the client ended");
      co_return;
    }
    if (l.dropped) continue;
    co_await hold(l);
    if (open_) co_await pass(l, l.block.data(), size);
  }
}

asio::awaitable<void> session::hold(lane& l) {
  double wait_ms = state_.options.delay_ms;
  if (state_.options.jitter_ms > 0)
    wait_ms += std::uniform_real_distribution<double>(0, state_.options.jitter_ms)(state_.random);
  if (wait_ms > 0) {
    l.pause.expires_after(milliseconds(wait_ms));
    co_await l.pause.async_wait(k_tuple);
  }
}

// Whether the next act's byte is reached; a byte is garbled, and byte 0 meant, only once it is there.
bool session::due(const lane& l, bool byte_at_hand) const {
  const auto& acts = plan_.of(l.to);
  if (acts.empty() || acts.front().at != l.passed) return false;
  return byte_at_hand || (acts.front().kind != act::garble && l.passed > 0);
}

asio::awaitable<void> session::pass(lane& l, char* bytes, std::size_t size) {
  auto& acts = plan_.of(l.to);
  while (open_ && !l.dropped) {
    if (due(l, size > 0)) {
      const auto what = acts.front();
      acts.pop_front();
      co_await perform(l, what, bytes);
      continue;
    }
    if (size == 0) co_return;
    auto part = static_cast<std::uint64_t>(size);
    if (!acts.empty() && acts.front().at > l.passed) part = std::min(part, acts.front().at - l.passed);
    const bool sent = co_await send(l, bytes, static_cast<std::size_t>(part));
    if (!sent) co_return;
    l.passed += part;
    bytes += part;
    size -= static_cast<std::size_t>(part);
  }
}

asio::awaitable<void> session::perform(lane& l, planned_act what, char* next) {
  ++state_.done[what.kind];
  log(fmt::format("{} at byte {}", act_name(what.kind), what.at));
  switch (what.kind) {
    case act::reset:
    case act::reset_request:
      close(true);
      break;
    case act::half_close:
      l.dropped = true;
      l.into.shutdown(socket::shutdown_send, l.ignored);
      break;
    case act::black_hole:
      to_client_.dropped = true;
      to_server_.dropped = true;
      break;
    case act::garble:
      *next = static_cast<char>(~*next);
      break;
    case act::add: {
      std::array<char, k_added_bytes> added{};
      for (auto& byte : added) byte = static_cast<char>(state_.random());
      co_await send(l, added.data(), added.size());
      break;
    }
    case act::refuse:
      break;
  }
}

// Whether all was sent; pieces and the rate are kept.
asio::awaitable<bool> session::send(lane& l, const char* bytes, std::size_t size) {
  const auto& options = state_.options;
  const auto most = send_bytes_max(options);
  for (bool first = true; size > 0; first = false) {
    if (!first && options.piece_gap_ms > 0) {
      l.pause.expires_after(milliseconds(options.piece_gap_ms));
      co_await l.pause.async_wait(k_tuple);
    }
    co_await while_frozen();
    if (!open_ || l.dropped) co_return false;
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(size, most));
    const auto piece = asio::buffer(bytes, part);
    const auto [error, written] = co_await asio::async_write(l.into, piece, k_tuple);
    if (!open_) co_return false;
    if (error) {
      log("a side reset the connection");
      close(true);
      co_return false;
    }
    bytes += written;
    size -= written;
    if (options.rate_bytes_per_s == 0) continue;
    const double seconds = static_cast<double>(written) / static_cast<double>(options.rate_bytes_per_s);
    l.rate_due = std::max(l.rate_due, clock::now()) + milliseconds(seconds * 1e3);
    l.pause.expires_at(l.rate_due);
    co_await l.pause.async_wait(k_tuple);
  }
  co_return true;
}

void session::close(bool reset) {
  if (!open_) return;
  open_ = false;
  boost::system::error_code ignored;
  for (auto* one : {&client_, &server_}) {
    if (reset && one->is_open()) one->set_option(asio::socket_base::linger(true, 0), ignored);
    one->close(ignored);
  }
  to_client_.pause.cancel();
  to_server_.pause.cancel();
}

}  // namespace weir::loadtest::chaos
