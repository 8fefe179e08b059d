// What a model's router knows of one request until it is dispatched. Only the router's sources include this.
#pragma once

#include "gateway/route/model_router.hpp"

namespace weir::gateway::route {

struct model_router::ask {
  policy::request_facts facts;
  policy::scoring how;
  std::shared_ptr<const prompt_identity> prompt;
  std::unique_ptr<bool[]> excluded;
  const policy::failover::attempts* before = nullptr;  // the request's; does not change while it waits
  std::vector<policy::aside> set_aside;                // empty: none
  std::vector<policy::prefix_view> prefixes;           // one per target
  std::optional<std::uint64_t> session;
  std::string tenant;
  std::int64_t weight = 1;
  int priority = 0;
  std::uint64_t seed = 0;
  std::chrono::steady_clock::time_point begun;
  double work_tokens = 0;  // uncached, on the target that holds most of the prompt
  bool streams = false;
};

// Shared by the waiting coroutine and whoever places it. The timer belongs to the coroutine's thread; it is
// gone when the coroutine has left.
struct model_router::waiter {
  waiter(ask a, std::chrono::steady_clock::time_point by, io_executor e)
      : request(std::move(a)), deadline(by), executor(e), wake(std::in_place, e) {}

  ask request;
  const std::chrono::steady_clock::time_point deadline;
  io_executor executor;
  std::optional<io_timer> wake;
  std::optional<placing> placed;  // under the router's lock
  std::optional<error> refused;   // the same: it has to leave
  bool listed = false;            // under the router's lock
};

}  // namespace weir::gateway::route
