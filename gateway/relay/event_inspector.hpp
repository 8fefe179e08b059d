// What one event of an upstream's stream is to the gateway: something a client shows, or not; an error;
// usage. Reads the JSON of chunks and of the responses API's events, keeps nothing of it and changes nothing.
//
// Holds a JSON parser that is reused: one per I/O thread, one call at a time.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/api/response_writer.hpp"

namespace weir::gateway::relay {

enum class event_kind : std::uint8_t {
  comment,   // no data: comments, retry and the like
  done,      // [DONE]
  last,      // of typed events: the answer is complete; content too
  preamble,  // choices in which a client would show nothing: a role, empty content
  content,   // anything else in a choice, a finish_reason included
  usage,     // no choice, but usage
  error,     // a top-level error
  nonsense,  // data that is not one JSON object
};

// Whose events: chunks of chat and completions, or the typed events of the responses API or of Anthropic's
// messages API.
enum class event_shape : std::uint8_t { chunks, responses, messages };

struct event_facts {
  event_kind what = event_kind::nonsense;
  std::uint64_t seen_choices = 0;      // bit i: choice i, those below 64
  std::uint64_t finished_choices = 0;  // of these, with a finish_reason
  int shown_choices = 0;               // in which a client would show something
  // Of any kind of event. Of shape messages: -1 for what it does not say, and the prompt's are those that no
  // cache had.
  std::optional<api::token_usage> usage;
  int error_status = 0;    // of an error: 400..599, or 0 where it names none
  std::string error_code;  // where they are text
  std::string error_type;
  std::string error_message;
};

struct reply_facts {
  api::token_usage usage;            // zeros where the reply has none
  std::int64_t content_bytes = 0;    // of the texts in its choices, where usage does not say what they took
  std::optional<event_facts> error;  // in the place of an answer
};

// What the messages API tells apart, summed up as all others do.
api::token_usage whole_usage(api::token_usage said) noexcept;

class event_inspector final {
 public:
  // `event` as event_splitter found it. The byte range may be followed by anything.
  event_facts inspect(std::string_view event, event_shape shape = event_shape::chunks);

  // A whole JSON reply; nothing where it is not one JSON object.
  std::optional<reply_facts> inspect_reply(std::string_view body, event_shape shape = event_shape::chunks);

 private:
  bool join_data(std::string_view event);  // false: it has no data field
  event_facts read_data(event_shape shape);

  simdjson::dom::parser parser_;
  std::string data_;
};

}  // namespace weir::gateway::relay
