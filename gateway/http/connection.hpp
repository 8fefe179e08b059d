// The bytes of one connection, to a client or to an upstream: at most one read outstanding, into a bounded
// buffer, and one write; every wait has a deadline. It knows no HTTP.
//
// One read stays outstanding while somebody waits or watches, also while a handler runs: on a client's
// connection that read is both the read-ahead of the next request and the disconnect watch. Deadlines are
// kept by one lazy timer: moving a deadline later costs nothing, the timer looks again when it fires.
// Invariants: unread() may move only while no read is pending; a wait and a write never overlap; after a
// failed write the connection is good for close() only; close() must be called, since callbacks hold the
// connection by shared pointer. Threads: one I/O thread.
#pragma once

#include <array>
#include <boost/asio/cancellation_signal.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "gateway/http/limits.hpp"
#include "gateway/http/read_buffer.hpp"
#include "gateway/http/transport.hpp"
#include "gateway/task.hpp"

namespace weir::gateway::http {

enum class wait_outcome : std::uint8_t {
  bytes,        // unread() has grown
  closed,       // the peer sent FIN or broke the connection; no more bytes will come
  timeout,      // the deadline passed first
  interrupted,  // interrupt() was called
};

class connection final : public std::enable_shared_from_this<connection> {
 public:
  using clock = std::chrono::steady_clock;

  connection(tcp_socket socket, asio::ssl::context* tls, const http_settings& settings);

  io_executor executor() { return transport_.socket().get_executor(); }
  bool is_tls() const noexcept { return transport_.is_tls(); }
  SSL* tls_handle() noexcept { return transport_.tls_handle(); }  // null when plain
  // False: refused or too slow.
  task<bool> handshake(asio::ssl::stream_base::handshake_type side,
                       clock::time_point deadline = clock::time_point::max());

  std::string_view unread() const noexcept { return buffer_.unread(); }
  void consume(std::size_t bytes) noexcept { buffer_.consume(bytes); }
  // Between two exchanges: holds no more memory than an idle connection needs.
  void shrink() {
    if (!read_pending_) buffer_.shrink();
  }

  // Waits for more bytes than unread() holds now, reading at most up to bytes_max of them in all. REQUIRES:
  // fewer are unread.
  task<wait_outcome> wait_bytes(clock::time_point deadline, std::size_t bytes_max);
  void interrupt();

  // From now on a disconnect emits `signal` (total cancellation); bytes that come are kept, up to the
  // read-ahead limit.
  void watch(asio::cancellation_signal& signal);
  void unwatch() noexcept { watcher_ = nullptr; }
  bool peer_closed() const noexcept { return peer_ != peer_state::open; }  // half-close included
  // The peer's end was FIN or, under TLS, close_notify: nothing was cut off.
  bool ended_in_order() const noexcept { return ended_in_order_; }
  bool gone() const noexcept;  // no reply can reach the peer, or a half-close counts as a disconnect

  // All of `buffers` (at most four), or false when the peer is gone or read nothing for write_idle. Throws
  // operation_aborted where the calling task was cancelled.
  task<bool> write(std::span<const asio::const_buffer> buffers);
  // The same without a coroutine where the socket takes all at once; nothing where it did not: then
  // write_rest() must follow, while the buffers stay as they are.
  std::optional<bool> write_now(std::span<const asio::const_buffer> buffers);
  task<bool> write_rest();
  bool broken() const noexcept { return broken_; }

  // Whether the peer has kept the connection open and sent nothing: fit for a next request of ours.
  bool quiet();
  bool clean() const noexcept;                                 // as far as is known without asking the socket
  void read_while_idle() { start_read(k_idle_buffer_bytes); }  // lets quiet() see into a TLS stream

  // Reads while a long request of ours is written: a peer that answers before it has all of it will not take
  // much more, so the write then ends within k_early_reply_wait, as failed.
  // No write of it goes on behind `deadline`.
  void expect_reply(clock::time_point deadline) noexcept;
  bool write_timed_out() const noexcept { return write_timed_out_; }

  // Ends the connection so that the peer can still read what was sent: FIN (close_notify), then reads on
  // until the peer closes or the linger limits are reached.
  task<void> close_gracefully();
  void close() noexcept;
  void reset() noexcept;  // closes with a reset

 private:
  enum class peer_state : std::uint8_t {
    open,         // leaves by a finished read, to either
    half_closed,  // FIN or close_notify came; final
    failed,       // reset or TLS fault; final
  };
  struct on_read;
  struct on_watchdog;
  // The coroutine that waits. It is resumed in place: by way of the loop it would run a poll of all sockets
  // later. It keeps this connection alive, so it must be cancelled before its io_context ends.
  using sleeper = asio::async_result<asio::use_awaitable_t<io_executor>, void()>::handler_type;
  struct start_sleep;

  void advance_left(std::size_t bytes) noexcept;
  void start_read(std::size_t bytes_max);
  void read_ahead();
  void finish_read(const error_code& ec, std::size_t bytes);
  void wake();
  void post_wake();  // of the present sleep only: a later one may be another request's
  void guard(clock::time_point deadline);
  void arm_watchdog();
  void stop_watchdog() noexcept;
  void fire_watchdog(std::uint64_t generation);
  task<void> cancel_read();
  task<void> discard_until_closed();

  const http_settings& settings_;
  transport transport_;
  io_timer watchdog_;
  std::optional<sleeper> sleeper_;
  std::uint64_t sleep_count_ = 0;
  read_buffer buffer_;
  asio::cancellation_signal read_cancel_;
  asio::cancellation_signal* watcher_ = nullptr;
  std::uint64_t received_bytes_ = 0;
  peer_state peer_ = peer_state::open;
  bool read_pending_ = false;
  bool interrupted_ = false;
  bool broken_ = false;

  clock::time_point watchdog_deadline_{};
  std::uint64_t watchdog_generation_ = 0;
  bool watchdog_armed_ = false;
  bool guarded_ = false;  // an operation is under the watchdog
  bool waiting_ = false;  // it is a wait, which ends by timed_out_; a guarded write closes the socket
  bool timed_out_ = false;
  bool expects_reply_ = false;
  bool write_timed_out_ = false;
  clock::time_point write_deadline_ = clock::time_point::max();
  bool ended_in_order_ = false;
  unsigned immediate_writes_ = 0;

  std::array<asio::const_buffer, 4> left_;  // of a write: what is not out yet begins at left_first_
  std::size_t left_first_ = 0;
  std::size_t left_count_ = 0;
  std::uint64_t received_before_write_ = 0;
};

}  // namespace weir::gateway::http
