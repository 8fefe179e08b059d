// Errors of one API in the shape of another, with the class of status that the reader's SDK retries by.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/errc.hpp"

namespace weir::gateway::dialects {

// What a hosted target's error means for the request and for the target.
enum class target_fault : std::uint8_t {
  request,         // the request's own: another target would say the same
  context_length,  // too long for this model; a larger window may do
  credential,      // our key or its permissions: between the gateway and the target
  quota,           // our money there is used up: no use to try again, the target itself is well
  rate,            // too many requests: retry-after says when
  overloaded,      // the target has no room
  broken,          // anything else that is the target's
};

struct target_error {
  target_fault what = target_fault::broken;
  int status = 502;     // for a chat client
  std::string message;  // for the client: valid UTF-8, bounded, nothing of our account
};

// An error of a messages API: a body with its status, or the data of an `error` event, which has none (0).
target_error read_messages_error(int status, const std::string& body);

// An error of Moonshot's API.
target_error read_moonshot_error(int status, const std::string& body);

// {"error":{message, type, param, code}}
std::string chat_error_json(const target_error& e);

// The event that ends a chat stream on a fault. It tells the status, which the relay reads.
std::string chat_error_event(const target_error& e);

struct messages_error {
  int status = 500;
  std::string body;  // {"type":"error","error":{type, message},"request_id"}
};

messages_error to_messages_error(const error& e, std::string_view request_id);

// The same of a chat target's error, whose body may be anything.
messages_error to_messages_error(int status, const std::string& chat_body, std::string_view request_id);

// The event that ends a messages stream on a fault.
std::string messages_error_event(const messages_error& e);

}  // namespace weir::gateway::dialects
