// Choice events to the JSON of an endpoint, as a stream of events or as one body, in the exact shapes that
// official SDKs parse: role in each choice's first delta, a finish_reason at its end, index and type on tool
// calls, arguments as a string, refusal and logprobs keys always present. One answer, one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gateway/api/choice_event.hpp"

namespace weir::gateway::api {

// What every object of one answer carries.
struct answer_identity {
  std::string id;     // chatcmpl-... or cmpl-...
  std::string model;  // as the client named it
  std::int64_t created_s = 0;
};

// A report of more is a mistake: no context and no number of choices comes near.
inline constexpr std::int64_t k_reported_tokens_max = 100'000'000;

// Both 0: nobody says.
struct token_usage {
  std::int64_t prompt_tokens = 0;      // once, whatever the number of choices; -1 = not known
  std::int64_t completion_tokens = 0;  // tokens delivered, over all choices; the end-of-turn token is not one
  std::int64_t cached_tokens = -1;     // of the prompt, as an upstream says; -1 = not known
  std::int64_t cache_write_tokens = -1;  // likewise: of the prompt, newly kept, where that has a price
};

// What was seen of an answer, for a target that does not say what it used.
struct shown_output {
  std::int64_t events = 0;         // of a stream, one for each choice that shows something in it
  std::int64_t content_bytes = 0;  // of a whole answer: its choices' texts
};

class response_writer {
 public:
  virtual ~response_writer() = default;

  // Bytes to send now: whole events, or nothing while a body is collected.
  virtual std::string write(const choice_event& event) = 0;

  // The last bytes, after every choice finished: usage and [DONE], or the body.
  virtual std::string finish(const token_usage& usage) = 0;
};

enum class writer_mode { body, stream, stream_with_usage };

std::unique_ptr<response_writer> make_chat_writer(answer_identity identity, int choice_count,
                                                  writer_mode mode);

// `echoes` holds one text per choice to put in front of it, or nothing.
std::unique_ptr<response_writer> make_completion_writer(answer_identity identity, int choice_count,
                                                        writer_mode mode, std::vector<std::string> echoes);

// "usage":{...} for any endpoint.
std::string usage_json(const token_usage& usage);

}  // namespace weir::gateway::api
