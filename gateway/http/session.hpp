// One client connection from accept to close: heads in, exchanges served in order, keep-alive, errors of the
// edge answered.
//
// Life: run() is the connection's only task. It reads and validates a head, hands an exchange to the
// dispatcher, waits for the handler and goes on, until either side ends it. A disconnect, and cut(), cancel
// that task wherever it stands. Threads: one I/O thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gateway/http/connection.hpp"
#include "gateway/http/exchange.hpp"
#include "gateway/http/head_parser.hpp"
#include "gateway/http/session_context.hpp"
#include "gateway/http/session_exchange.hpp"

namespace weir::gateway::http {

class session final : public std::enable_shared_from_this<session> {
 public:
  using signal_ptr = std::shared_ptr<asio::cancellation_signal>;

  session(tcp_socket socket, asio::ssl::context* tls, const session_context& context);

  // REQUIRES: spawned with signal(), once.
  task<void> run();
  const signal_ptr& signal() const noexcept { return signal_; }

  // Answers what is in flight, then closes; an idle connection closes at once.
  void begin_drain();
  // Ends the connection now; its handler is cancelled, and the client told why.
  void cut(const error& why);

 private:
  enum class turn : std::uint8_t {
    next,      // the connection may carry another request
    graceful,  // close so that the peer reads all that was sent
    abrupt,    // nothing more can or shall reach the peer
  };

  task<turn> serve();
  task<turn> read_head();
  task<turn> serve_one();
  task<turn> refuse(int status, std::string_view reason);
  session_exchange::request take_request();

  const session_context& context_;
  const signal_ptr signal_;
  const peer_info peer_;
  const std::shared_ptr<connection> link_;
  head_parser parser_;
  session_exchange* running_ = nullptr;
  std::size_t request_count_ = 0;
  bool idle_ = true;
  bool draining_ = false;
  bool reset_ = false;  // an HTTP/1.0 stream was aborted: only a reset tells the client
};

}  // namespace weir::gateway::http
