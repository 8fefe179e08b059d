// What stands behind a model: the embedded engine or, over HTTP, a replica. A request goes in, a response
// comes out in units that are passed on as they are: one whole body, or whole server-sent events.
//
// Cancellation: destroying a response cancels what produces it; so does cancelling the coroutine that awaits
// start() or next(). Threads: an upstream serves all I/O threads; a response belongs to the thread that
// started it.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "gateway/api/body_edit.hpp"
#include "gateway/api/generation_call.hpp"
#include "gateway/api/response_writer.hpp"
#include "gateway/errc.hpp"
#include "gateway/http/exchange.hpp"
#include "gateway/task.hpp"
#include "policy/failover/failure.hpp"
#include "policy/types.hpp"

namespace weir::gateway::upstream {

using time_point = std::chrono::steady_clock::time_point;

// How long the parts of an answer may take. A target may narrow or widen what the gateway's limits say.
struct time_limits {
  std::chrono::milliseconds whole{600'000};       // an answer that is not streamed
  std::chrono::milliseconds first_token{60'000};  // from the start to a stream's first content
  std::chrono::milliseconds inter_token{60'000};  // between two outputs of a stream
};

struct reply_head {
  int status = 200;
  bool events = false;         // pieces are server-sent events; else there is one piece, the body
  bool said_as_asked = false;  // in the API of Anthropic, in which the client asked
  std::string content_type = "application/json";
  http::header_list headers;  // what else the client may see
};

// Why an attempt came to nothing, as far as the next one depends on it.
struct attempt_failure {
  error why;  // as the client reads it where this ends its request
  policy::failover::ending how = policy::failover::ending::status;
  int status = 0;    // of `status`, and of `error_event` where it names one
  std::string code;  // of the target's error object
  std::string type;
  std::string message;  // of the target; may hold what no client should read
};

// What the embedded engine refuses, in the terms of a target that answers with a status.
attempt_failure to_failure(error why);

class response {
 public:
  virtual ~response() = default;

  virtual const reply_head& head() const noexcept = 0;

  // The next piece: the whole body, or one or more whole events; empty at the end. Valid until the next call.
  // deadline_exceeded when nothing came by then; any other error ends the response.
  virtual task<result<std::string_view>> next(time_point deadline) = 0;

  // After next() failed. Of how == status, head() and take_body() are what the client would get.
  virtual attempt_failure failure() const = 0;
  // The target does not accept the key of ours that it was sent, or that key's account is empty. True: it has
  // another one.
  virtual bool key_refused() noexcept { return false; }

  // The whole body that next() just returned, where the head says that there is one piece. Once.
  virtual std::string take_body() { return {}; }

  // Nothing that a client waits for is missing any more: it may leave without having missed a token.
  virtual bool complete() const noexcept = 0;

  // True up to the end of the stream; final afterwards.
  virtual api::token_usage usage() const noexcept = 0;
  // Of the answer up to here, for a target whose usage() does not say it.
  virtual api::shown_output shown() const noexcept { return {}; }

  // After complete(): waits, at most until then, for what only the next request profits from.
  virtual task<void> settle(time_point) { co_return; }

  // Whether the error event of a stream that broke was part of the last piece.
  virtual bool error_sent() const noexcept { return false; }
};

// One request on its way to a target.
struct dispatch {
  std::shared_ptr<const api::generation_call> call;
  std::string_view model;       // the configured name of what the client asked for; outlives the response
  std::string_view id_prefix;   // of the identifier of an answer that the gateway writes itself
  std::string_view request_id;  // outlives the response
  std::span<const api::body_member> members;  // that the body carries to a replica; outlive the response
  std::int64_t output_tokens_max = 0;         // of a choice, where the body does not bound it; 0: as it is
  std::string_view trace_lines;               // header lines that take the request's trace there
  time_point deadline;                        // of start() and, for a stream, of its first content
  bool may_move = false;  // another target could serve it: one that hangs is not waited for
  // It goes out once, even where a reused connection turns out to be closed: ending::reset_reused.
  bool once = false;
  // Outlives start(). True from when the target may work at the request; false again where it was not reached
  // after all, or answered with an error status.
  bool* sent = nullptr;
};

class upstream {
 public:
  virtual ~upstream() = default;

  virtual policy::target_view view() const noexcept = 0;
  // gen_ai.provider.name of it; a literal.
  virtual std::string_view provider() const noexcept = 0;
  // What holds for this target where the gateway's own limits are `general`.
  virtual time_limits limits(const time_limits& general) const noexcept { return general; }

  // Checks the request against the target and starts it. Errors here are the client's or ours, before any
  // output.
  using started = std::expected<std::unique_ptr<response>, attempt_failure>;
  virtual task<started> start(dispatch request) = 0;
};

}  // namespace weir::gateway::upstream
