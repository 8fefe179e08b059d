// What stands behind a model: the embedded engine or, over HTTP, a replica. A request goes in, a response
// comes out in units that are passed on as they are: one JSON body, or whole server-sent events.
//
// Cancellation: destroying a response cancels what produces it; so does cancelling the coroutine that awaits
// next(). Threads: an upstream serves all I/O threads; a response belongs to the thread that started it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/api/chat_types.hpp"
#include "gateway/api/completion_types.hpp"
#include "gateway/api/response_writer.hpp"
#include "gateway/errc.hpp"
#include "gateway/task.hpp"
#include "policy/types.hpp"

namespace weir::gateway::upstream {

using time_point = std::chrono::steady_clock::time_point;

class response {
 public:
  virtual ~response() = default;

  // The next piece: the whole JSON body, or one or more whole events; nullopt at the end. deadline_exceeded
  // when nothing came by then; any other error ends the response.
  virtual task<result<std::optional<std::string>>> next(time_point deadline) = 0;

  // True up to the end of the stream; final afterwards.
  virtual api::token_usage usage() const noexcept = 0;
};

class upstream {
 public:
  virtual ~upstream() = default;

  virtual policy::target_view view() const noexcept = 0;

  // Checks the request against the target and starts it. Errors here are the client's or ours, before any
  // output.
  virtual task<result<std::unique_ptr<response>>> start(std::shared_ptr<const api::chat_request> request,
                                                        api::answer_identity identity) = 0;
  virtual task<result<std::unique_ptr<response>>> start(
      std::shared_ptr<const api::completion_request> request, api::answer_identity identity) = 0;
};

}  // namespace weir::gateway::upstream
