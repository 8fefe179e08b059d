// A dispatcher with one path per thing that a handler may do, for tests of sessions.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

#include "gateway/http/exchange.hpp"

namespace weir::gateway::http::testing {

class echo_dispatcher final : public dispatcher {
 public:
  task<void> serve(exchange& ex) override;
  std::string error_body(int status, std::string_view message) const override;
  reply cut_reply(const exchange& ex, const error& why) const override;

  std::atomic<std::size_t> body_limit_bytes{1000};
  std::atomic<int> served{0};     // requests that reached serve()
  std::atomic<int> waiting{0};    // handlers within /wait
  std::atomic<int> cancelled{0};  // handlers of /wait that were cancelled

 private:
  task<void> echo(exchange& ex);
  task<void> stream(exchange& ex, bool whole);
  task<void> wait(exchange& ex);
  task<void> flood(exchange& ex);
};

}  // namespace weir::gateway::http::testing
