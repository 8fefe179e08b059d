#include "gateway/http/worker.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <utility>

#include "gateway/http/response_head.hpp"

namespace weir::gateway::http {
namespace {

using reuse_port = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;

}  // namespace

void server_shared::start_accepting(std::size_t worker_count) {
  const std::lock_guard lock(mutex_);
  accepting_count_ = worker_count;
}

void server_shared::stop_accepting() {
  const std::lock_guard lock(mutex_);
  --accepting_count_;
  fewer_.notify_all();
}

bool server_shared::open_connection(bool drained) {
  const std::lock_guard lock(mutex_);
  const bool full = drained ? drained_count_ >= options.connections_max
                            : open_count_ - drained_count_ >= k_admin_connections_max;
  if (full) return false;
  ++open_count_;
  if (drained) ++drained_count_;
  counters.connections_open.store(open_count_, std::memory_order_relaxed);
  return true;
}

void server_shared::close_connection(bool drained) {
  const std::lock_guard lock(mutex_);
  --open_count_;
  if (drained) --drained_count_;
  counters.connections_open.store(open_count_, std::memory_order_relaxed);
  if (drained_count_ == 0) fewer_.notify_all();
}

std::size_t server_shared::drained_connections() {
  const std::lock_guard lock(mutex_);
  return drained_count_;
}

bool server_shared::wait_closed(std::chrono::milliseconds timeout, bool all) {
  std::unique_lock lock(mutex_);
  return fewer_.wait_for(lock, timeout, [this, all] {
    return accepting_count_ == 0 && (all ? open_count_ : drained_count_) == 0;
  });
}

worker::listener::listener(const listen_spec& s, tls_pointer t, tcp_acceptor a, worker& owner)
    : spec(s), tls(std::move(t)), acceptor(std::move(a)), context{*s.handler,
                                                                  spec.settings,
                                                                  owner.shared_.budget,
                                                                  owner.shared_.counters,
                                                                  owner.stamps_,
                                                                  owner.shared_.report} {}

worker::worker(server_shared& shared) : shared_(shared), context_(1), guard_(context_.get_executor()) {
  tasks_ = std::make_unique<task_group>(context_.get_executor(), [this](std::exception_ptr fault) {
    shared_.report("connection task: " + describe(fault));
  });
  open_spare_descriptor();
}

worker::~worker() {
  sessions_.clear();  // their sockets need the io_context, as do those of refusals
  refusals_.clear();
  if (spare_descriptor_ >= 0) ::close(spare_descriptor_);
}

std::expected<std::uint16_t, std::string> worker::listen(const listen_spec& spec, tls_pointer tls) {
  error_code ec;
  const auto where = spec.address + ":" + std::to_string(spec.port);
  const auto address = asio::ip::make_address(spec.address, ec);
  if (ec) return std::unexpected("cannot listen on " + where + ": not a numeric address");
  const asio::ip::tcp::endpoint endpoint(address, spec.port);
  tcp_acceptor acceptor(context_.get_executor());
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(asio::socket_base::reuse_address(true), ec);
  if (!ec) acceptor.set_option(reuse_port(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(k_listen_backlog, ec);
  if (!ec) acceptor.non_blocking(true, ec);
  if (ec) return std::unexpected("cannot listen on " + where + ": " + ec.message());
  const std::uint16_t port = acceptor.local_endpoint(ec).port();
  listeners_.push_back(std::make_unique<listener>(spec, std::move(tls), std::move(acceptor), *this));
  return port;
}

void worker::run() {
  while (true) {
    try {
      context_.run();
      return;
    } catch (...) {
      shared_.report("I/O thread: " + describe(std::current_exception()));
    }
  }
}

void worker::start() {
  for (const auto& l : listeners_) tasks_->spawn(accept_loop(*l));
}

task<void> worker::accept_loop(listener& l) {
  co_await accept_cancellation();
  while (!l.closing) {
    auto [ec, socket] = co_await l.acceptor.async_accept(asio::as_tuple(use_task));
    if (l.closing) co_return;
    if (ec) {
      co_await accept_failed(l, ec);
    } else {
      take(l, std::move(socket));
    }
  }
}

// Out of descriptors, a waiting connection keeps the acceptor readable: it is taken on the spare descriptor
// and closed, so that its client learns at once, and the loop rests before it tries again.
task<void> worker::accept_failed(listener& l, error_code ec) {
  if (ec == asio::error::connection_aborted) co_return;
  if (ec == asio::error::operation_aborted) co_return;
  shared_.counters.accept_failures.fetch_add(1, std::memory_order_relaxed);
  if (ec == asio::error::no_descriptors && spare_descriptor_ >= 0) {
    ::close(std::exchange(spare_descriptor_, -1));
    error_code ignored;
    tcp_socket refused = l.acceptor.accept(ignored);
    refused.close(ignored);
    open_spare_descriptor();
  }
  io_timer pause(context_.get_executor(), k_accept_backoff);
  co_await pause.async_wait(use_task);
}

void worker::open_spare_descriptor() noexcept {
  if (spare_descriptor_ < 0) spare_descriptor_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void worker::take(listener& l, tcp_socket socket) {
  const bool drained = !l.spec.outlives_drain;
  if (!shared_.open_connection(drained)) return refuse(l, std::move(socket));
  shared_.counters.accepted.fetch_add(1, std::memory_order_relaxed);
  try {
    auto s = std::make_shared<session>(std::move(socket), l.tls.get(), l.context);
    if (draining_ && drained) s->begin_drain();
    const auto signal = s->signal();
    tasks_->spawn(serve(std::move(s), drained), signal);
  } catch (...) {
    shared_.close_connection(drained);
    shared_.report("accept: " + describe(std::current_exception()));
  }
}

// Refusals linger until the client has read them; in a flood those that have lingered longest make room.
void worker::refuse(listener& l, tcp_socket socket) {
  shared_.counters.refused.fetch_add(1, std::memory_order_relaxed);
  if (l.tls) return;
  response_head described;
  const std::string body =
      l.spec.handler->error_body(503, "the gateway has no room for more connections; retry later");
  const std::string request_id = stamps_.request_id();
  described.status = 503;
  described.content_type = "application/json";
  described.request_id = request_id;
  described.date = stamps_.date();
  described.content_length = body.size();
  described.close = true;
  header_list headers;
  headers.emplace_back("retry-after", "1");
  const auto head = format_head(described, headers);
  if (!head) return;
  auto link = std::make_shared<connection>(std::move(socket), nullptr, l.spec.settings);
  if (refusals_.size() >= k_refusals_max) {
    refusals_.front()->close();  // whereupon its task ends
    refusals_.pop_front();
  }
  refusals_.push_back(link);
  tasks_->spawn(deliver_refusal(std::move(link), *head + body));
}

task<void> worker::deliver_refusal(std::shared_ptr<connection> link, std::string bytes) {
  const std::array<asio::const_buffer, 1> buffers{asio::buffer(bytes)};
  try {
    const bool sent = co_await link->write(buffers);
    if (sent) co_await link->close_gracefully();
  } catch (const boost::system::system_error&) {
    link->close();  // cancelled by stop()
  }
  refusals_.remove(link);
}

task<void> worker::serve(std::shared_ptr<session> s, bool drained) {
  const auto entry = sessions_.emplace(sessions_.begin(), s, drained);
  try {
    co_await s->run();
  } catch (...) {
    shared_.report("session: " + describe(std::current_exception()));
  }
  sessions_.erase(entry);
  shared_.close_connection(drained);
}

void worker::drain() {
  if (std::exchange(draining_, true)) return;
  for (const auto& l : listeners_) {
    if (l->spec.outlives_drain || l->closing) continue;
    l->closing = true;
    take_backlog(*l);
    error_code ignored;
    l->acceptor.close(ignored);
  }
  for (const auto& [s, drained] : sessions_) {
    if (drained) s->begin_drain();
  }
  shared_.stop_accepting();
}

// What the kernel has accepted already gets one reply each instead of a reset.
void worker::take_backlog(listener& l) {
  for (int i = 0; i < k_listen_backlog; ++i) {
    error_code ec;
    tcp_socket socket = l.acceptor.accept(ec);
    if (ec) return;
    take(l, std::move(socket));
  }
}

void worker::cut(bool all) {
  if (all) {
    for (const auto& l : listeners_) {
      l->closing = true;
      error_code ignored;
      l->acceptor.close(ignored);
    }
    if (!std::exchange(draining_, true)) shared_.stop_accepting();
    tasks_->cancel_all();
    return;
  }
  const session_list cut_now = sessions_;
  for (const auto& [s, drained] : cut_now) {
    if (drained) s->cut({errc::draining, "the gateway shuts down; retry in a moment", {}});
  }
}

void worker::set_tls(std::size_t listener_index, tls_pointer tls) {
  listeners_[listener_index]->tls = std::move(tls);
}

}  // namespace weir::gateway::http
