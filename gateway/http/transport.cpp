#include "gateway/http/transport.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ssl/error.hpp>

namespace weir::gateway::http {

transport::transport(tcp_socket socket, asio::ssl::context* tls) : socket_(std::move(socket)) {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  if (tls != nullptr) tls_ = std::make_unique<tls_stream>(socket_, *tls);
}

std::size_t transport::try_write(std::span<const asio::const_buffer> buffers, error_code& ec) {
  if (!tls_) return socket_.write_some(buffers, ec);
  ec = asio::error::would_block;
  return 0;
}

task<std::pair<error_code, std::size_t>> transport::write_some(std::span<const asio::const_buffer> buffers) {
  if (tls_) {
    auto [ec, bytes] = co_await tls_->async_write_some(buffers, asio::as_tuple(use_task));
    co_return std::pair(ec, bytes);
  }
  auto [ec, bytes] = co_await socket_.async_write_some(buffers, asio::as_tuple(use_task));
  co_return std::pair(ec, bytes);
}

task<error_code> transport::handshake(asio::ssl::stream_base::handshake_type side) {
  if (!tls_) co_return error_code{};
  auto [ec] = co_await tls_->async_handshake(side, asio::as_tuple(use_task));
  co_return ec;
}

task<error_code> transport::send_close() {
  error_code ec;
  if (tls_) {
    auto [failed] = co_await tls_->async_shutdown(asio::as_tuple(use_task));
    ec = failed;
  }
  error_code ignored;
  socket_.shutdown(tcp_socket::shutdown_send, ignored);
  co_return ec;
}

void transport::close() noexcept {
  error_code ignored;
  socket_.close(ignored);
}

void transport::reset() noexcept {
  error_code ignored;
  socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  socket_.close(ignored);
}

}  // namespace weir::gateway::http
