// The reply of an HTTP target as a response: a whole body, or the events that may go to the client.
// One request, one I/O thread.
#pragma once

#include <memory>

#include "gateway/http/byte_budget.hpp"
#include "gateway/relay/event_inspector.hpp"
#include "gateway/upstream/dialect.hpp"
#include "gateway/upstream/http_exchange.hpp"
#include "gateway/upstream/http_upstream.hpp"

namespace weir::gateway::upstream {

struct reply_parts {
  std::unique_ptr<attempt_slot> slot;
  held_link link;
  reply_start start;
  patience how = patience::until_deadline;
  std::unique_ptr<reply_translator> translator;  // null: the reply is as it should be
  bool said_as_asked = false;                    // in the API of Anthropic, where the client asked in it
};

// A stream of events whose usage event is dropped where `drop_usage`.
std::unique_ptr<response> make_event_response(reply_parts parts, const reply_limits& limits,
                                              http::byte_budget& budget, bool drop_usage,
                                              relay::event_shape shape);

// One body, read whole before any of it goes on, so that a broken one has its true status. A status other
// than 2xx is a failure; the body is then the target's error in OpenAI's shape.
std::unique_ptr<response> make_body_response(reply_parts parts, const reply_limits& limits,
                                             http::byte_budget& budget);

}  // namespace weir::gateway::upstream
