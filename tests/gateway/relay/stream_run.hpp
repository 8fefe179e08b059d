// Drives an event_stream as a response does, and keeps what a client and the relay would know of it. Behind a
// failure the LF of a last CRLF that came late is lost: CR ends the event as well, so it counts for nothing
// here.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/relay/event_stream.hpp"

namespace weir::gateway::relay::testing {

struct stream_outcome {
  std::string released;
  bool failed = false;
  errc code = errc::internal;  // of a failure
  std::string message;         // of a failure
  bool started = false;
  bool complete = false;
  bool error_sent = false;
  api::token_usage usage;

  friend bool operator==(const stream_outcome& a, const stream_outcome& b) {
    return a.released == b.released && a.failed == b.failed && a.code == b.code && a.message == b.message &&
           a.started == b.started && a.complete == b.complete && a.error_sent == b.error_sent &&
           a.usage.prompt_tokens == b.usage.prompt_tokens &&
           a.usage.completion_tokens == b.usage.completion_tokens &&
           a.usage.cached_tokens == b.usage.cached_tokens;
  }
};

// Takes what may go now; false once the stream has failed.
inline bool drain(event_stream& stream, event_stream::state state, std::string& released) {
  while (state == event_stream::state::release) {
    released += stream.released();
    state = stream.push({});
  }
  return state != event_stream::state::failed;
}

// Pushes `bytes` cut at the given ascending offsets, then the end where `ends`.
inline stream_outcome run(event_inspector& inspector, event_stream::options options, std::string_view bytes,
                          const std::vector<std::size_t>& cuts, bool ends = true) {
  event_stream stream(options, inspector);
  stream_outcome out;
  std::size_t at = 0;
  bool going = true;
  for (const std::size_t cut : cuts) {
    going = going && drain(stream, stream.push(bytes.substr(at, cut - at)), out.released);
    at = cut;
  }
  if (going && ends) drain(stream, stream.end(), out.released);
  out.failed = stream.failed();
  if (out.failed) out.code = stream.failure().code;
  if (out.failed) out.message = stream.failure().message;
  if (out.failed && out.released.ends_with("\r\n")) out.released.pop_back();
  out.started = stream.started();
  out.complete = stream.complete();
  out.error_sent = stream.error_sent();
  out.usage = stream.usage();
  return out;
}

}  // namespace weir::gateway::relay::testing
