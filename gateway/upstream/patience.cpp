#include "gateway/upstream/patience.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>

#include "gateway/http/reply_parser.hpp"
#include "gateway/task_group.hpp"
#include "gateway/upstream/dial.hpp"
#include "gateway/upstream/http_exchange.hpp"
#include "gateway/version.hpp"

namespace weir::gateway::upstream {

namespace {

using clock = std::chrono::steady_clock;
using policy::failover::freeze_step;

std::int64_t to_ns(clock::time_point at) noexcept {
  return std::chrono::nanoseconds(at.time_since_epoch()).count();
}

// Any final status tells that somebody is there; so the path need not exist, and no key is sent.
task<void> probe(std::shared_ptr<const origin> target) {
  co_await accept_cancellation();
  const auto deadline = clock::now() + k_probe_time;
  auto dialed = co_await dial(target, deadline);
  if (!dialed) {
    if (dialed.error().code == errc::overloaded) target->freeze.probe_given_up();
    co_return;
  }
  const held_link link(std::move(*dialed));
  const std::string head = fmt::format(
      "GET {} HTTP/1.1\r\nhost: {}\r\nuser-agent: weir/{}\r\naccept: */*\r\nconnection: close\r\n\r\n",
      target->config.probe_path, target->url.authority, k_version);
  const auto reply = co_await exchange_heads(*link, target, head, {}, deadline);
  if (reply) target->freeze.heard(to_ns(clock::now()));
}

// The probes of one I/O thread: a service of its io_context.
class probes final : public asio::execution_context::service {
 public:
  using key_type = probes;
  static asio::execution_context::id id;

  explicit probes(asio::execution_context& context)
      : asio::execution_context::service(context),
        tasks_(static_cast<asio::io_context&>(context).get_executor(),
               [](const std::exception_ptr& fault) { spdlog::error("fault: probe: {}", describe(fault)); }) {}

  static probes& of(const io_executor& executor) { return asio::use_service<probes>(executor.context()); }

  void start(std::shared_ptr<const origin> target) { tasks_.spawn(probe(std::move(target))); }

 private:
  void shutdown() noexcept override {}  // the io_context ends their frames

  task_group tasks_;
};

asio::execution_context::id probes::id;

}  // namespace

task<waited> wait_patiently(http::connection& link, std::shared_ptr<const origin> target, patience how,
                            time_point deadline, std::size_t bytes_max) {
  const auto since = clock::now();
  while (how == patience::while_alive) {
    const auto verdict = target->freeze.check(to_ns(since), to_ns(clock::now()));
    if (verdict.what == freeze_step::frozen) co_return waited{.frozen = true};
    if (verdict.what == freeze_step::probe) probes::of(link.executor()).start(target);
    const clock::time_point look_at{std::chrono::nanoseconds(verdict.at_ns)};
    if (look_at >= deadline) break;
    const auto outcome = co_await link.wait_bytes(look_at, bytes_max);
    if (outcome == http::wait_outcome::timeout) continue;
    if (outcome == http::wait_outcome::bytes) target->freeze.heard(to_ns(clock::now()));
    co_return waited{outcome};
  }
  const auto outcome = co_await link.wait_bytes(deadline, bytes_max);
  co_return waited{outcome};
}

}  // namespace weir::gateway::upstream
