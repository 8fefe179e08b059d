#include "loadtest/chaos/proxy.hpp"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <cstdio>

#include "loadtest/chaos/session.hpp"
#include "loadtest/endpoint.hpp"
#include "loadtest/file_limit.hpp"

namespace weir::loadtest::chaos {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr int k_backlog = 4096;
constexpr auto k_tuple = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::milliseconds k_accept_pause{20};  // when file descriptors ran out

void rethrow(std::exception_ptr fault) {
  if (fault) std::rethrow_exception(fault);
}

class server final {
 public:
  server(const chaos_options& options, tcp::endpoint listen, tcp::endpoint to)
      : state_(io_, options), to_(to), acceptor_(io_) {
    acceptor_.open(listen.protocol());
    acceptor_.set_option(asio::socket_base::reuse_address(true));
    acceptor_.bind(listen);
    acceptor_.listen(k_backlog);
  }

  void run() {
    asio::co_spawn(io_, accept(), rethrow);
    asio::co_spawn(io_, obey(), rethrow);
    const auto bound = acceptor_.local_endpoint();
    const auto host = bound.address().to_string();
    fmt::print("listening on {}:{}\n", bound.address().is_v6() ? "[" + host + "]" : host, bound.port());
    std::fflush(stdout);
    io_.run();
    summarize();
  }

 private:
  asio::awaitable<void> accept() {
    asio::steady_timer pause(io_);
    for (;;) {
      auto [error, socket] = co_await acceptor_.async_accept(k_tuple);
      if (error) {
        pause.expires_after(k_accept_pause);
        co_await pause.async_wait(k_tuple);
        continue;
      }
      const auto one = std::make_shared<session>(state_, std::move(socket), ++state_.connections);
      asio::co_spawn(io_, one->run(to_), [one](std::exception_ptr fault) { rethrow(fault); });
    }
  }

  asio::awaitable<void> obey() {
    asio::signal_set signals(io_, SIGTERM, SIGINT, SIGUSR1);
    signals.add(SIGUSR2);
    for (;;) {
      const auto [error, number] = co_await signals.async_wait(k_tuple);
      if (error || number == SIGTERM || number == SIGINT) break;
      state_.frozen = number == SIGUSR1;
      if (!state_.frozen) state_.thaw.cancel();
      if (state_.options.verbose) fmt::print(stderr, "{}\n", state_.frozen ? "frozen" : "resumed");
    }
    io_.stop();
  }

  void summarize() const {
    fmt::print(stderr, "{} connections", state_.connections);
    if (state_.unreachable > 0) fmt::print(stderr, ", server unreachable {}", state_.unreachable);
    for (const auto& [kind, count] : state_.done) fmt::print(stderr, ", {} {}", act_name(kind), count);
    if (state_.ends_extended > 0) fmt::print(stderr, ", add-at-end {}", state_.ends_extended);
    fmt::print(stderr, "\n");
  }

  asio::io_context io_{1};
  proxy_state state_;
  tcp::endpoint to_;
  tcp::acceptor acceptor_;
};

std::expected<tcp::endpoint, std::string> resolve(const std::string& text) {
  if (const auto numeric = parse_endpoint(text)) return *numeric;
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return std::unexpected(fmt::format("'{}' is not HOST:PORT", text));
  asio::io_context io;
  tcp::resolver resolver(io);
  boost::system::error_code error;
  const auto found = resolver.resolve(text.substr(0, colon), text.substr(colon + 1), error);
  if (error || found.empty()) return std::unexpected(fmt::format("'{}': {}", text, error.message()));
  return found.begin()->endpoint();
}

}  // namespace

std::expected<void, std::string> proxy(const chaos_options& options) {
  const auto listen = parse_endpoint(options.listen);
  if (!listen) return std::unexpected(listen.error());
  const auto to = resolve(options.to);
  if (!to) return std::unexpected(to.error());
  if (options.k_min > options.k_max) return std::unexpected("--k-min is above --k-max");
  raise_file_limit();
  try {
    server(options, *listen, *to).run();
  } catch (const boost::system::system_error& e) {
    return std::unexpected(fmt::format("{}: {}", options.listen, e.code().message()));
  }
  return {};
}

}  // namespace weir::loadtest::chaos
