// A connected socket, plain or under TLS, as one type; the choice costs a branch per call, none per byte.
// Threads: the I/O thread of its executor. At most one read and one write are pending at a time.
#pragma once

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "gateway/task.hpp"

namespace weir::gateway::http {

using error_code = boost::system::error_code;
using tcp_socket = asio::basic_stream_socket<asio::ip::tcp, io_executor>;

class transport final {
 public:
  using tls_stream = asio::ssl::stream<tcp_socket&>;

  // `tls` null: plain. The context may be dropped afterwards.
  transport(tcp_socket socket, asio::ssl::context* tls);
  transport(const transport&) = delete;
  transport& operator=(const transport&) = delete;

  bool is_tls() const noexcept { return tls_ != nullptr; }
  tcp_socket& socket() noexcept { return socket_; }

  template <class Handler>
  void async_read_some(asio::mutable_buffer room, Handler&& handler) {
    if (tls_) return tls_->async_read_some(room, std::forward<Handler>(handler));
    socket_.async_read_some(room, std::forward<Handler>(handler));
  }

  // Plain: one send that does not wait. TLS: would_block always.
  std::size_t try_write(std::span<const asio::const_buffer> buffers, error_code& ec);

  task<std::pair<error_code, std::size_t>> write_some(std::span<const asio::const_buffer> buffers);
  SSL* tls_handle() noexcept { return tls_ ? tls_->native_handle() : nullptr; }
  task<error_code> handshake(asio::ssl::stream_base::handshake_type side);  // nothing to do when plain
  task<error_code>
  send_close();  // close_notify under TLS, waits for the peer's: guard with a timer; no read may be pending
  void close() noexcept;
  void reset() noexcept;  // closes with a reset

 private:
  tcp_socket socket_;
  std::unique_ptr<tls_stream> tls_;
};

}  // namespace weir::gateway::http
