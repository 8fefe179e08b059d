// Takes a request from a connection to its handler: route, method, key, then the handler, with one probe
// around it all. Auth and route are decided from the same parsed head. Immutable; any thread.
#pragma once

#include <span>
#include <string>

#include "gateway/api/endpoints.hpp"
#include "gateway/http/exchange.hpp"

namespace weir::gateway::api {

enum class listener { api, admin };

class endpoint_dispatcher final : public http::dispatcher {
 public:
  // `state` and `endpoints` outlive the dispatcher. Requests of the admin listener are reported neither in
  // metrics nor in the access log, and are only served for its own hosts.
  endpoint_dispatcher(server_state& state, std::span<const endpoint> endpoints, listener of)
      : state_(state), endpoints_(endpoints), admin_(of == listener::admin) {}

  task<void> serve(http::exchange& ex) override;
  std::string error_body(int status, std::string_view message) const override;
  http::reply cut_reply(const http::exchange& ex, const error& why) const override;

 private:
  struct match {
    const endpoint* route = nullptr;  // null: no such path, or not with this method
    std::string_view path_part;
    error_shape errors = error_shape::chat;  // of the path
    std::string allow;                       // methods of the path, empty when there is no such path
  };
  match find(const http::request_head& head) const;
  // The caller, or why the request is not served.
  result<auth::identity> admit(const http::exchange& ex, const endpoint& route, const snapshot& snap) const;

  server_state& state_;
  std::span<const endpoint> endpoints_;
  bool admin_;
};

}  // namespace weir::gateway::api
