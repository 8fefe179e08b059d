// Takes a request from a connection to its handler: route, method, key, then the handler, with one probe
// around it all. Auth and route are decided from the same parsed head. Immutable; any thread.
#pragma once

#include <span>
#include <string>

#include "gateway/api/endpoints.hpp"
#include "gateway/http/exchange.hpp"

namespace weir::gateway::api {

class endpoint_dispatcher final : public http::dispatcher {
 public:
  // Both outlive the dispatcher. An unobserved one, for the admin listener, reports neither metrics nor log
  // lines.
  endpoint_dispatcher(server_state& state, std::span<const endpoint> endpoints, bool observed)
      : state_(state), endpoints_(endpoints), observed_(observed) {}

  task<void> serve(http::exchange& ex) override;
  std::string error_body(int status, std::string_view message) const override;

 private:
  struct match {
    const endpoint* route = nullptr;  // null: no such path, or not with this method
    std::string_view path_rest;
    std::string allow;  // methods of the path, empty when there is no such path
  };
  match find(const http::request_head& head) const;

  server_state& state_;
  std::span<const endpoint> endpoints_;
  bool observed_;
};

}  // namespace weir::gateway::api
