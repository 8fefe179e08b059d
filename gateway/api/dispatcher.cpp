#include "gateway/api/dispatcher.hpp"

#include <fmt/format.h>
#include <boost/beast/http/verb.hpp>
#include <ctime>

#include "gateway/admin/access.hpp"
#include "gateway/api/error_body.hpp"
#include "gateway/api/messages_exchange.hpp"

namespace weir::gateway::api {

namespace {

using boost::beast::http::verb;

http::reply say(const http::exchange& ex, const error& e, error_shape shape) {
  return shape == error_shape::messages ? messages_error_reply(e, ex.request_id()) : error_reply(e);
}

task<void> refuse(http::exchange& ex, observe::request_probe& probe, error e, error_shape shape,
                  std::string allow = {}) {
  probe.set_outcome(info(e.code).code);
  auto reply = say(ex, e, shape);
  if (!allow.empty()) reply.headers.emplace_back("allow", std::move(allow));
  co_await ex.send(std::move(reply));
}

error no_route(const http::request_head& head, const std::string& allow) {
  if (!allow.empty()) {
    return {errc::method_not_allowed, fmt::format("{} allows only {}", head.path, allow), {}};
  }
  const std::string_view method = boost::beast::http::to_string(head.method);
  return {errc::unknown_url, fmt::format("no such path: {} {}", method, head.path), {}};
}

}  // namespace

endpoint_dispatcher::match endpoint_dispatcher::find(const http::request_head& head) const {
  match out;
  for (const auto& e : endpoints_) {
    const auto part = match_path(e.path, head.path);
    if (!part) continue;
    out.errors = e.errors;
    out.allow += out.allow.empty() ? "" : ", ";
    out.allow += boost::beast::http::to_string(e.method);
    if (e.method == verb::get) out.allow += ", HEAD";
    if (e.method != head.method && !(e.method == verb::get && head.method == verb::head)) continue;
    out.route = &e;
    out.path_part = *part;
    break;
  }
  return out;
}

result<auth::identity> endpoint_dispatcher::admit(const http::exchange& ex, const endpoint& route,
                                                  const snapshot& snap) const {
  const auto& head = ex.head();
  const bool has_key = snap.admin_key.has_value();
  switch (route.needs) {
    case access::open:
      break;
    case access::key: {
      const auto keys = state_.keys.ring.store();
      auto caller = auth::authenticate(head, *keys, std::time(nullptr));
      if (caller || !snap.config.auth.loopback_open || !ex.peer().loopback) return caller;
      // A browser on this machine would otherwise lend this place to any page, by a name that resolves here.
      if (auto meant = admin::check_host(head, {}); !meant) return std::unexpected(meant.error());
      if (auto own = admin::check_origin(head, {}); !own) return std::unexpected(own.error());
      return auth::loopback_identity();
    }
    case access::admin_if_set:
      if (!has_key) break;
      [[fallthrough]];
    case access::admin:
      if (auto opened = admin::check_key(head, snap.admin_key); !opened)
        return std::unexpected(opened.error());
      break;
  }
  return auth::identity{};
}

task<void> endpoint_dispatcher::serve(http::exchange& ex) {
  auto snap = state_.snapshots.get();
  using report = observe::request_probe::report;
  const report seen = snap->config.log.access ? report::metrics_and_line : report::metrics;
  observe::request_probe probe(state_.metrics, ex, admin_ ? report::nothing : seen);
  const auto& head = ex.head();
  if (!admin_) probe.start_trace(snap->tracing);
  if (admin_) {
    if (auto meant = admin::check_host(head, snap->config.admin_access.hosts); !meant) {
      co_await refuse(ex, probe, std::move(meant.error()), error_shape::chat);
      co_return;
    }
  }
  auto found = find(head);
  if (found.route == nullptr) {
    error e = no_route(head, found.allow);
    co_await refuse(ex, probe, std::move(e), found.errors, std::move(found.allow));
    co_return;
  }
  probe.set_endpoint(found.route->label);
  if (head.has_body && (found.route->method == verb::get || found.route->method == verb::delete_)) {
    error e{errc::bad_request, "this path takes no request body", {}};
    co_await refuse(ex, probe, std::move(e), found.errors);
    co_return;
  }
  if (admin_) {
    if (auto allowed = admin::check_origin(head, snap->config.admin_access.hosts); !allowed) {
      co_await refuse(ex, probe, std::move(allowed.error()), found.errors);
      co_return;
    }
  }
  auto caller = admit(ex, *found.route, *snap);
  if (!caller) {
    co_await refuse(ex, probe, std::move(caller.error()), found.errors);
    co_return;
  }
  probe.set_key(caller->name);
  request_context context{ex, state_, std::move(snap), std::move(*caller), probe, found.path_part};
  co_await found.route->serve(context);
}

http::reply endpoint_dispatcher::cut_reply(const http::exchange& ex, const error& why) const {
  return say(ex, why, find(ex.head()).errors);
}

std::string endpoint_dispatcher::error_body(int status, std::string_view message) const {
  return error_json(status, message);
}

}  // namespace weir::gateway::api
