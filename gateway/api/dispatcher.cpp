#include "gateway/api/dispatcher.hpp"

#include <fmt/format.h>
#include <boost/beast/http/verb.hpp>
#include <ctime>

#include "gateway/api/error_body.hpp"

namespace weir::gateway::api {

namespace {

using boost::beast::http::verb;

task<void> refuse(http::exchange& ex, observe::request_probe& probe, error e, std::string allow) {
  probe.set_outcome(info(e.code).code);
  auto reply = error_reply(e);
  if (!allow.empty()) reply.headers.emplace_back("allow", std::move(allow));
  co_await ex.send(std::move(reply));
}

}  // namespace

endpoint_dispatcher::match endpoint_dispatcher::find(const http::request_head& head) const {
  match out;
  for (const auto& e : endpoints_) {
    const bool same =
        e.prefix ? head.path.size() > e.path.size() && head.path.starts_with(e.path) : head.path == e.path;
    if (!same) continue;
    out.allow += out.allow.empty() ? "" : ", ";
    out.allow += boost::beast::http::to_string(e.method);
    if (e.method == verb::get) out.allow += ", HEAD";
    if (e.method != head.method && !(e.method == verb::get && head.method == verb::head)) continue;
    out.route = &e;
    out.path_rest = std::string_view(head.path).substr(e.path.size());
    break;
  }
  return out;
}

task<void> endpoint_dispatcher::serve(http::exchange& ex) {
  auto snap = state_.snapshots.get();
  using report = observe::request_probe::report;
  const report seen = snap->config.log.access ? report::metrics_and_line : report::metrics;
  observe::request_probe probe(state_.metrics, ex, observed_ ? seen : report::nothing);
  const auto& head = ex.head();
  auto found = find(head);
  if (found.route == nullptr) {
    const bool known = !found.allow.empty();
    error e{known ? errc::method_not_allowed : errc::unknown_url,
            known ? fmt::format("{} allows only {}", head.path, found.allow)
                  : fmt::format("no such path: {} {}",
                                std::string_view(boost::beast::http::to_string(head.method)), head.path),
            {}};
    co_await refuse(ex, probe, std::move(e), std::move(found.allow));
    co_return;
  }
  probe.set_endpoint(found.route->label);
  if (head.has_body && found.route->method != verb::post) {
    error e{errc::bad_request, "this path takes no request body", {}};
    co_await refuse(ex, probe, std::move(e), std::string());
    co_return;
  }
  auth::identity caller;
  if (found.route->needs == access::key) {
    const auto keys = state_.keys.ring.store();
    auto known =
        auth::authenticate(head, ex.peer(), *keys, snap->config.auth.loopback_open, std::time(nullptr));
    if (!known) {
      co_await refuse(ex, probe, std::move(known.error()), std::string());
      co_return;
    }
    caller = std::move(*known);
    probe.set_key(caller.name);
  }
  request_context context{ex, state_, std::move(snap), std::move(caller), probe, found.path_rest};
  co_await found.route->serve(context);
}

std::string endpoint_dispatcher::error_body(int status, std::string_view message) const {
  return error_json(status, message);
}

}  // namespace weir::gateway::api
