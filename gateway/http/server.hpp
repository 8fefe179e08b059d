// The HTTP server: N I/O threads with one io_context each, every listener with one SO_REUSEPORT acceptor per
// thread.
//
// Life: construct, listen() for each address, start(), run until told to end, drain(), stop(). Handlers,
// timers and upstream connections of the gateway live on the same io_contexts (context(i)). Threads: all
// calls from one controlling thread that is no I/O thread; counters() and reload_tls() from any non-I/O
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>

#include "gateway/http/exchange.hpp"
#include "gateway/http/limits.hpp"
#include "gateway/http/session_context.hpp"
#include "gateway/http/tls_context.hpp"

namespace weir::gateway::http {

struct server_options {
  std::size_t thread_count = 1;
  std::size_t connections_max = k_connections_max_default;      // of clients; beyond it 503
  std::size_t body_budget_bytes = k_body_budget_bytes_default;  // request bodies in memory; beyond it 503
};

struct listen_spec {
  std::string address = "127.0.0.1";  // numeric
  std::uint16_t port = 0;             // 0: a free one
  dispatcher* handler = nullptr;      // outlives the server
  http_settings settings;
  std::optional<tls_files> tls;
  bool outlives_drain = false;  // an admin listener: answers until stop()
};

struct bound_listener {
  std::size_t index;
  std::uint16_t port;
};

class server final {
 public:
  // `report` hears of faults (exceptions), from any I/O thread.
  server(server_options options, fault_reporter report);
  ~server();  // stop()
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  // REQUIRES: before start(). The error says which address or file and why.
  std::expected<bound_listener, std::string> listen(const listen_spec& spec);
  void start();

  // Stops accepting, closes idle connections, says Connection: close on replies, waits up to `grace` for what
  // is in flight, then cancels it. Returns how many connections were cut.
  std::size_t drain(std::chrono::milliseconds grace);

  // Cancels everything, waits a bounded time for it to unwind, joins the threads. Idempotent.
  void stop();

  // New connections of that listener use the files' present content; nothing changes on error.
  std::expected<void, std::string> reload_tls(std::size_t listener_index);

  std::size_t thread_count() const noexcept;
  asio::io_context& context(std::size_t thread_index) noexcept;
  const edge_counters& counters() const noexcept;
  std::size_t body_bytes_held() const noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace weir::gateway::http
