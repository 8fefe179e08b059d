#include "gateway/upstream/dial.hpp"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/system/system_error.hpp>

namespace weir::gateway::upstream {

namespace {

using http::error_code;
using http::tcp_socket;
using clock = std::chrono::steady_clock;

// Shared with the timer, whose handler may run after the coroutine went away.
struct connecting {
  tcp_socket socket;
  bool timed_out = false;
};

struct on_connect_timeout {
  std::shared_ptr<connecting> state;
  void operator()(const error_code& ec) const {
    if (ec) return;
    state->timed_out = true;
    error_code ignored;
    state->socket.close(ignored);
  }
};

struct connect_outcome {
  tcp_socket socket;
  error_code failed;
  bool timed_out = false;
};

task<connect_outcome> connect(asio::ip::tcp::endpoint endpoint, time_point deadline) {
  const io_executor executor = co_await asio::this_coro::executor;
  auto state = std::make_shared<connecting>(connecting{tcp_socket(executor)});
  io_timer timer(executor, deadline);
  timer.async_wait(on_connect_timeout{state});
  const auto [ec] = co_await state->socket.async_connect(endpoint, asio::as_tuple(use_task));
  timer.cancel();
  co_return connect_outcome{std::move(state->socket), ec, state->timed_out};
}

// The certificate must be for the configured host, by name or by address.
bool expect_host(SSL* ssl, const std::string& host) {
  error_code ec;
  asio::ip::make_address(host, ec);
  if (!ec) return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1;
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return SSL_set_tlsext_host_name(ssl, host.c_str()) == 1 && SSL_set1_host(ssl, host.c_str()) == 1;
}

std::string why_no_tls(SSL* ssl) {
  const long verdict = SSL_get_verify_result(ssl);
  if (verdict == X509_V_OK) return "the TLS handshake failed or took too long";
  return fmt::format("its certificate was refused: {}", X509_verify_cert_error_string(verdict));
}

std::unexpected<error> unreachable(const origin& target, const std::string& why) {
  return fail(errc::upstream_failed, fmt::format("target '{}' cannot be reached: {}", target.name, why));
}

}  // namespace

task<result<std::shared_ptr<http::connection>>> dial(std::shared_ptr<const origin> target,
                                                     time_point deadline) {
  const auto addresses = target->addresses->get();
  if (!addresses) co_return unreachable(*target, "its name is not known: " + target->addresses->failure());
  const auto own_deadline = clock::now() + std::chrono::milliseconds(target->config.connect_timeout_ms);
  const auto first = target->turn.fetch_add(1, std::memory_order_relaxed);
  std::string why = "timed out";
  const auto last = std::min(deadline, own_deadline);
  for (std::size_t i = 0; i < addresses->size(); ++i) {
    const auto endpoint = (*addresses)[(first + i) % addresses->size()];
    // An address that swallows packets may not take the time of those behind it.
    const auto share = (last - clock::now()) / static_cast<std::int64_t>(addresses->size() - i);
    auto connected = co_await connect(endpoint, clock::now() + share);
    if (connected.timed_out) continue;
    if (connected.failed == asio::error::operation_aborted)
      throw boost::system::system_error(connected.failed);
    if (connected.failed == asio::error::no_descriptors) {
      co_return fail(errc::overloaded, "the gateway is out of file descriptors; retry later");
    }
    if (connected.failed) {
      why = connected.failed.message();
      continue;
    }
    auto link =
        std::make_shared<http::connection>(std::move(connected.socket), target->tls.get(), target->settings);
    if (target->tls) {
      bool secured = expect_host(link->tls_handle(), target->url.host);
      if (secured) secured = co_await link->handshake(asio::ssl::stream_base::client, deadline);
      if (!secured) {
        why = why_no_tls(link->tls_handle());
        link->close();
        break;
      }
    }
    co_return link;
  }
  if (clock::now() >= deadline) co_return fail(errc::deadline_exceeded, "no answer in time");
  co_return unreachable(*target, why);
}

}  // namespace weir::gateway::upstream
