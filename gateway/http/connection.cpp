#include "gateway/http/connection.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/system/system_error.hpp>
#include <cassert>
#include <cerrno>
#include <utility>

namespace weir::gateway::http {
namespace {

constexpr unsigned k_immediate_writes_max = 32;  // then the loop serves others once

[[noreturn]] void throw_aborted() {
  throw boost::system::system_error(asio::error::operation_aborted);
}

}  // namespace

struct connection::on_read {
  std::shared_ptr<connection> self;
  void operator()(const error_code& ec, std::size_t bytes) const { self->finish_read(ec, bytes); }
};

struct connection::on_watchdog {
  std::shared_ptr<connection> self;
  std::uint64_t generation;
  void operator()(const error_code& ec) const {
    if (!ec) self->fire_watchdog(generation);
  }
};

struct connection::start_sleep {
  connection* self;
  void operator()(sleeper handler) const {
    // By the loop: resuming in place would destroy the slot's own handler while it runs.
    ++self->sleep_count_;
    auto slot = asio::get_associated_cancellation_slot(handler);
    if (slot.is_connected()) slot.assign([self = self](asio::cancellation_type) { self->post_wake(); });
    self->sleeper_.emplace(std::move(handler));
  }
};

connection::connection(tcp_socket socket, asio::ssl::context* tls, const http_settings& settings)
    : settings_(settings),
      transport_(std::move(socket), tls),
      watchdog_(transport_.socket().get_executor()) {}

task<bool> connection::handshake(asio::ssl::stream_base::handshake_type side, clock::time_point deadline) {
  if (!is_tls()) co_return true;
  guard(std::min(deadline, clock::now() + settings_.handshake_timeout));
  const error_code ec = co_await transport_.handshake(side);
  guarded_ = false;
  if (ec == asio::error::operation_aborted && peer_ == peer_state::open) throw_aborted();
  co_return !ec;
}

task<wait_outcome> connection::wait_bytes(clock::time_point deadline, std::size_t bytes_max) {
  const std::uint64_t received_before = received_bytes_;
  if (peer_ != peer_state::open) co_return wait_outcome::closed;
  if (std::exchange(interrupted_, false)) co_return wait_outcome::interrupted;
  start_read(bytes_max);
  timed_out_ = false;
  waiting_ = true;
  guard(deadline);
  start_sleep begin{this};
  co_await asio::async_initiate<const asio::use_awaitable_t<io_executor>, void()>(begin, use_task);
  guarded_ = false;
  waiting_ = false;
  if (received_bytes_ != received_before) co_return wait_outcome::bytes;
  if (peer_ != peer_state::open) co_return wait_outcome::closed;
  if (std::exchange(interrupted_, false)) co_return wait_outcome::interrupted;
  if (!timed_out_) throw_aborted();
  co_return wait_outcome::timeout;
}

void connection::interrupt() {
  interrupted_ = true;
  post_wake();
}

void connection::post_wake() {
  asio::post(executor(), [link = shared_from_this(), sleep = sleep_count_] {
    if (link->sleep_count_ == sleep) link->wake();
  });
}

void connection::wake() {
  if (!sleeper_) return;
  sleeper resumed = std::move(*sleeper_);
  sleeper_.reset();
  std::move(resumed)();
}

void connection::close() noexcept {
  transport_.close();
  stop_watchdog();
}

void connection::reset() noexcept {
  transport_.reset();
  stop_watchdog();
}

void connection::stop_watchdog() noexcept {
  try {
    watchdog_.cancel();
  } catch (const std::exception&) {  // it then holds the connection until it fires
    return;
  }
  watchdog_armed_ = false;
}

void connection::watch(asio::cancellation_signal& signal) {
  watcher_ = &signal;
  shrink();
  if (peer_ == peer_state::open) return read_ahead();
  if (gone()) signal.emit(asio::cancellation_type::all);
}

bool connection::gone() const noexcept {
  return peer_ == peer_state::failed || broken_ ||
         (peer_ == peer_state::half_closed && settings_.half_close_aborts);
}

bool connection::clean() const noexcept {
  return peer_ == peer_state::open && !broken_ && buffer_.unread().empty();
}

// The socket is asked even while a read is pending: what came since the last poll is not seen by it yet.
bool connection::quiet() {
  if (!clean()) return false;
  char byte = 0;
  const auto seen = ::recv(transport_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return seen < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

void connection::expect_reply(clock::time_point deadline) noexcept {
  expects_reply_ = true;
  write_deadline_ = deadline;
}

void connection::start_read(std::size_t bytes_max) {
  if (read_pending_ || peer_ != peer_state::open) return;
  const std::span<char> room = buffer_.prepare(bytes_max);
  if (room.empty()) return;
  read_pending_ = true;
  on_read done{shared_from_this()};
  transport_.async_read_some(asio::buffer(room.data(), room.size()),
                             asio::bind_cancellation_slot(read_cancel_.slot(), std::move(done)));
}

// The buffer stays small where a client sends nothing, as nearly all do while they wait for a reply.
void connection::read_ahead() {
  const bool small = buffer_.unread().size() < k_idle_buffer_bytes / 2;
  start_read(small ? k_idle_buffer_bytes : k_read_ahead_bytes_max);
}

void connection::finish_read(const error_code& ec, std::size_t bytes) {
  read_pending_ = false;
  buffer_.commit(bytes);
  received_bytes_ += bytes;
  if (ec && ec != asio::error::operation_aborted) {
    const bool fin = ec == asio::error::eof || ec == asio::ssl::error::stream_truncated;
    peer_ = fin ? peer_state::half_closed : peer_state::failed;
    ended_in_order_ = ec == asio::error::eof;
  }
  if (expects_reply_ && guarded_ && !waiting_)
    guard(std::min(watchdog_deadline_, clock::now() + k_early_reply_wait));
  if (watcher_ == nullptr) return wake();
  if (!ec) return read_ahead();
  if (gone()) watcher_->emit(asio::cancellation_type::all);
}

void connection::guard(clock::time_point deadline) {
  watchdog_deadline_ = deadline;
  guarded_ = true;
  arm_watchdog();
}

void connection::arm_watchdog() {
  if (watchdog_armed_ && watchdog_.expiry() <= watchdog_deadline_) return;
  watchdog_armed_ = true;
  watchdog_.expires_at(watchdog_deadline_);
  watchdog_.async_wait(on_watchdog{shared_from_this(), ++watchdog_generation_});
}

void connection::fire_watchdog(std::uint64_t generation) {
  if (generation != watchdog_generation_) return;
  watchdog_armed_ = false;
  if (!guarded_) return;
  if (clock::now() < watchdog_deadline_) return arm_watchdog();
  if (waiting_) {
    timed_out_ = true;
    return wake();
  }
  peer_ = peer_state::failed;
  write_timed_out_ = true;
  transport_.close();
}

void connection::advance_left(std::size_t bytes) noexcept {
  while (left_first_ < left_count_ && bytes >= left_[left_first_].size())
    bytes -= left_[left_first_++].size();
  if (left_first_ < left_count_) left_[left_first_] += bytes;
}

std::optional<bool> connection::write_now(std::span<const asio::const_buffer> buffers) {
  assert(buffers.size() <= left_.size());
  if (broken_ || peer_ == peer_state::failed) return false;
  std::copy(buffers.begin(), buffers.end(), left_.begin());
  left_first_ = 0;
  left_count_ = buffers.size();
  received_before_write_ = received_bytes_;
  error_code ec;
  const std::size_t sent_bytes = transport_.try_write(buffers, ec);
  advance_left(sent_bytes);
  if (left_first_ == left_count_) {
    if (++immediate_writes_ % k_immediate_writes_max != 0) return true;
    return std::nullopt;
  }
  broken_ = true;  // until all is out: a cancelled write leaves half a message behind
  if (expects_reply_) start_read(k_idle_buffer_bytes);
  if (ec && ec != asio::error::would_block && ec != asio::error::try_again) return false;
  return std::nullopt;
}

task<bool> connection::write_rest() {
  if (left_first_ == left_count_) {
    co_await asio::post(use_task);
    co_return true;
  }
  while (left_first_ < left_count_) {
    const bool answered = expects_reply_ && received_bytes_ > received_before_write_;
    guard(std::min(write_deadline_, clock::now() + (answered ? k_early_reply_wait : settings_.write_idle)));
    const auto unsent =
        std::span<const asio::const_buffer>(left_).subspan(left_first_, left_count_ - left_first_);
    const auto [failed, bytes] = co_await transport_.write_some(unsent);
    if (failed) {
      guarded_ = false;
      if (failed == asio::error::operation_aborted && peer_ == peer_state::open) throw_aborted();
      co_return false;
    }
    advance_left(bytes);
  }
  guarded_ = false;
  broken_ = false;
  co_return true;
}

task<bool> connection::write(std::span<const asio::const_buffer> buffers) {
  if (const auto done = write_now(buffers)) co_return *done;
  const bool sent = co_await write_rest();
  co_return sent;
}

task<void> connection::cancel_read() {
  watcher_ = nullptr;
  read_cancel_.emit(asio::cancellation_type::all);
  start_sleep begin{this};
  while (read_pending_) {
    co_await asio::async_initiate<const asio::use_awaitable_t<io_executor>, void()>(begin, use_task);
  }
}

task<void> connection::close_gracefully() {
  co_await cancel_read();
  if (peer_ != peer_state::failed && !broken_) {
    guard(clock::now() + settings_.shutdown_timeout);
    co_await transport_.send_close();
    if (peer_ == peer_state::open) co_await discard_until_closed();
    guarded_ = false;
  }
  close();
}

task<void> connection::discard_until_closed() {
  guard(clock::now() + settings_.linger);
  const auto sink = std::make_unique_for_overwrite<char[]>(k_linger_read_bytes);
  std::size_t total_bytes = 0;
  while (total_bytes < k_linger_bytes_max) {
    const auto room = asio::buffer(sink.get(), k_linger_read_bytes);
    auto [ec, bytes] = co_await transport_.socket().async_read_some(room, asio::as_tuple(use_task));
    if (ec) co_return;
    total_bytes += bytes;
  }
}

}  // namespace weir::gateway::http
