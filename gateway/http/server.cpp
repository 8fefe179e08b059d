#include "gateway/http/server.hpp"

#include <cassert>
#include <thread>
#include <utility>
#include <vector>

#include "gateway/http/response_head.hpp"
#include "gateway/http/worker.hpp"

namespace weir::gateway::http {

thread_stamps::thread_stamps() {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device(), device(), device(), device(), device()};
  random_.seed(seed);
}

std::string_view thread_stamps::date() {
  const std::time_t now = std::time(nullptr);
  if (now != second_ || date_.empty()) {
    second_ = now;
    date_ = format_date(now);
  }
  return date_;
}

std::string thread_stamps::request_id() {
  constexpr std::string_view k_digits = "0123456789abcdef";
  std::string id(32, '0');
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < id.size(); ++i) {
    if (i % 16 == 0) bits = random_();
    id[i] = k_digits[bits & 15];
    bits >>= 4;
  }
  return id;
}

struct server::state {
  state(const server_options& options, fault_reporter report) : shared(options, std::move(report)) {}

  server_shared shared;
  std::vector<std::unique_ptr<worker>> workers;
  std::vector<listen_spec> specs;
  std::vector<std::thread> threads;

  template <class F>
  void on_each(const F& f) {
    for (const auto& w : workers) asio::post(w->context(), [f, target = w.get()] { f(*target); });
  }
  std::expected<std::vector<tls_pointer>, std::string> load_tls(const listen_spec& spec) const;
};

std::expected<std::vector<tls_pointer>, std::string> server::state::load_tls(const listen_spec& spec) const {
  std::vector<tls_pointer> contexts(workers.size());
  if (!spec.tls) return contexts;
  const ticket_keys keys = make_ticket_keys();
  for (tls_pointer& context : contexts) {
    auto loaded = make_tls_context(*spec.tls, keys);
    if (!loaded) return std::unexpected(std::move(loaded.error()));
    context = std::move(*loaded);
  }
  return contexts;
}

server::server(server_options options, fault_reporter report)
    : state_(std::make_unique<state>(options, std::move(report))) {
  assert(options.thread_count > 0);
  for (std::size_t i = 0; i < options.thread_count; ++i) {
    state_->workers.push_back(std::make_unique<worker>(state_->shared));
  }
}

server::~server() {
  stop();
}

namespace {

// SO_REUSEPORT lets this process's threads share a port, and would let another process take a share of it
// unseen. A bind without it fails where anybody listens.
std::expected<void, std::string> check_port_free(asio::io_context& context, const listen_spec& spec) {
  if (spec.port == 0) return {};
  boost::system::error_code ec;
  const auto address = asio::ip::make_address(spec.address, ec);
  if (ec) return {};  // listen() says so
  const asio::ip::tcp::endpoint endpoint(address, spec.port);
  asio::ip::tcp::acceptor probe(context);
  probe.open(endpoint.protocol(), ec);
  if (!ec) probe.set_option(asio::socket_base::reuse_address(true), ec);
  if (!ec) probe.bind(endpoint, ec);
  if (!ec) return {};
  return std::unexpected("cannot listen on " + spec.address + ":" + std::to_string(spec.port) + ": " +
                         ec.message());
}

}  // namespace

std::expected<bound_listener, std::string> server::listen(const listen_spec& spec) {
  assert(state_->threads.empty() && spec.handler != nullptr);
  if (auto port_free = check_port_free(context(0), spec); !port_free)
    return std::unexpected(port_free.error());
  auto tls = state_->load_tls(spec);
  if (!tls) return std::unexpected(std::move(tls.error()));
  listen_spec bound = spec;
  for (std::size_t i = 0; i < state_->workers.size(); ++i) {
    auto port = state_->workers[i]->listen(bound, (*tls)[i]);
    if (!port) return std::unexpected(std::move(port.error()));
    bound.port = *port;
  }
  state_->specs.push_back(bound);
  return bound_listener{state_->specs.size() - 1, bound.port};
}

void server::start() {
  state_->shared.start_accepting(state_->workers.size());
  state_->on_each([](worker& w) { w.start(); });
  for (const auto& w : state_->workers) {
    state_->threads.emplace_back([target = w.get()] { target->run(); });
  }
}

std::size_t server::drain(std::chrono::milliseconds grace) {
  if (state_->threads.empty()) return 0;
  state_->on_each([](worker& w) { w.drain(); });
  if (state_->shared.wait_closed(grace, false)) return 0;
  const std::size_t cut_count = state_->shared.drained_connections();
  state_->on_each([](worker& w) { w.cut(false); });
  state_->shared.wait_closed(k_cut_wait, false);
  return cut_count;
}

void server::stop() {
  if (state_->threads.empty()) return;
  state_->on_each([](worker& w) { w.cut(true); });
  state_->shared.wait_closed(k_cut_wait, true);
  for (const auto& w : state_->workers) {
    w->release();
    w->context().stop();
  }
  for (std::thread& t : state_->threads) t.join();
  state_->threads.clear();
}

std::expected<void, std::string> server::reload_tls(std::size_t listener_index) {
  auto loaded = state_->load_tls(state_->specs.at(listener_index));
  if (!loaded) return std::unexpected(std::move(loaded.error()));
  for (std::size_t i = 0; i < state_->workers.size(); ++i) {
    worker* const target = state_->workers[i].get();
    asio::post(target->context(),
               [target, listener_index, tls = (*loaded)[i]] { target->set_tls(listener_index, tls); });
  }
  return {};
}

std::size_t server::thread_count() const noexcept {
  return state_->workers.size();
}
asio::io_context& server::context(std::size_t thread_index) noexcept {
  return state_->workers[thread_index]->context();
}
const edge_counters& server::counters() const noexcept {
  return state_->shared.counters;
}
std::size_t server::body_bytes_held() const noexcept {
  return state_->shared.budget.used_bytes();
}

}  // namespace weir::gateway::http
