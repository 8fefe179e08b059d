// One I/O thread of a server: its io_context, its acceptors, its sessions.
// Threads: all but run() belongs to the I/O thread; others reach it by post(). Members are ordered for
// destruction: what coroutine frames still refer to outlives the io_context that owns the frames.
#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "gateway/http/server.hpp"
#include "gateway/http/session.hpp"
#include "gateway/http/session_context.hpp"
#include "gateway/task_group.hpp"

namespace weir::gateway::http {

// What all threads of a server share. Any thread.
struct server_shared {
  server_shared(const server_options& o, fault_reporter r)
      : options(o), report(std::move(r)), budget(o.body_budget_bytes) {}

  const server_options options;
  const fault_reporter report;
  byte_budget budget;
  edge_counters counters;

  // False at the connection cap. `drained` connections are those that drain() waits for; the others, of admin
  // listeners, have a cap of their own.
  void start_accepting(std::size_t worker_count);
  void stop_accepting();  // once per worker
  bool open_connection(bool drained);
  void close_connection(bool drained);
  std::size_t drained_connections();
  // True: no worker accepts for them, and none of those (or of all) is left.
  bool wait_closed(std::chrono::milliseconds timeout, bool all);

 private:
  std::mutex mutex_;
  std::condition_variable fewer_;
  std::size_t accepting_count_ = 0;  // under mutex_; workers
  std::size_t open_count_ = 0;       // under mutex_
  std::size_t drained_count_ = 0;    // under mutex_; of these, those that a drain waits for
};

using tcp_acceptor = asio::basic_socket_acceptor<asio::ip::tcp, io_executor>;
using tls_pointer = std::shared_ptr<asio::ssl::context>;

class worker final {
 public:
  explicit worker(server_shared& shared);
  ~worker();
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  asio::io_context& context() noexcept { return context_; }

  // Before run(): opens an acceptor. Port 0 takes a free one; the port bound is returned.
  std::expected<std::uint16_t, std::string> listen(const listen_spec& spec, tls_pointer tls);

  void run();          // until stop(); a fault of a task is reported and does not end it
  void start();        // on the I/O thread: accepts
  void drain();        // on the I/O thread: stops accepting and lets sessions end
  void cut(bool all);  // on the I/O thread: ends the sessions that drain() waits for, or all
  void set_tls(std::size_t listener_index, tls_pointer tls);  // on the I/O thread: for new connections
  void release() { guard_.reset(); }

 private:
  struct listener {
    listener(const listen_spec& s, tls_pointer t, tcp_acceptor a, worker& owner);
    listen_spec spec;
    tls_pointer tls;
    tcp_acceptor acceptor;
    session_context context;
    bool closing = false;
  };
  using session_list = std::list<std::pair<std::shared_ptr<session>, bool>>;

  task<void> accept_loop(listener& l);
  task<void> accept_failed(listener& l, error_code ec);
  void take(listener& l, tcp_socket socket);
  void refuse(listener& l, tcp_socket socket);
  task<void> deliver_refusal(std::shared_ptr<connection> link, std::string bytes);
  void take_backlog(listener& l);
  task<void> serve(std::shared_ptr<session> s, bool drained);
  void open_spare_descriptor() noexcept;

  server_shared& shared_;
  thread_stamps stamps_;
  session_list sessions_;
  bool draining_ = false;
  std::list<std::shared_ptr<connection>> refusals_;  // that linger, the oldest first
  int spare_descriptor_ = -1;
  std::unique_ptr<task_group> tasks_;
  asio::io_context context_;
  asio::executor_work_guard<io_executor> guard_;
  std::vector<std::unique_ptr<listener>> listeners_;
};

}  // namespace weir::gateway::http
