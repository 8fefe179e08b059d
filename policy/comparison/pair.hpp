// One request answered twice: by the target that the client's answer came from, and by a shadow target that
// got a copy. What of it is kept to tell which of the two is cheaper, faster and more reliable. Values; any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "policy/limits/money.hpp"

namespace weir::policy::comparison {

using limits::usd_nano;

inline constexpr std::int64_t k_unknown = -1;  // of times and counts that were not measured or not said

// How one side's answer ended.
enum class side_end : std::uint8_t {
  ok,           // whole
  refused,      // with a status below 500, or an error of that kind
  failed,       // with a status of 500 and more, an error event, or nonsense
  unreachable,  // no connection
  timed_out,    // no content, or nothing more, in time
  broken,       // after its first content
};
inline constexpr int k_side_ends = 6;

std::string_view to_text(side_end end) noexcept;

struct side {
  std::string target;  // configured name
  side_end end = side_end::ok;
  std::int32_t status = 0;  // as the target answered; 0: it did not
  std::int64_t prompt_tokens = k_unknown;
  std::int64_t cached_tokens = k_unknown;  // of the prompt
  std::int64_t output_tokens = k_unknown;
  usd_nano price = 0;
  bool unpriced = true;  // some of the tokens have no price: `price` is too low
  // From the moment that the target could be sent the request.
  std::int64_t ttft_ns = k_unknown;        // to the first content; of streams
  std::int64_t itl_mean_ns = k_unknown;    // first to last content, per token behind the first
  std::int64_t itl_median_ns = k_unknown;  // of the pauses between pieces of content
  std::int64_t end_to_end_ns = k_unknown;
  std::string excerpt;  // the answer's begin, where texts are kept

  friend bool operator==(const side&, const side&) = default;
};

// Of something that only some answers have.
enum class likeness : std::uint8_t {
  absent,  // neither answer has it
  equal,
  different,  // or only one has it
};

struct agreement {
  bool compared = false;  // both sides answered whole; else all below is meaningless
  bool cut = false;       // an answer was longer than what is gathered: only its begin was compared
  bool exact = false;     // the same text, byte for byte, and the same tool calls
  double overlap = 0;     // of words (overlap.hpp), in [0, 1]; kept to a millionth
  likeness json = likeness::absent;   // of answers that are JSON: equal whatever the order of keys
  likeness tools = likeness::absent;  // of tool calls: names and arguments, in order

  friend bool operator==(const agreement&, const agreement&) = default;
};

struct pair {
  std::int64_t at_s = 0;  // Unix time of the copy's end
  std::string model;
  std::string tenant;
  std::string key;        // its name
  bool streamed = false;  // to the client; the copy always is
  side primary;
  side shadow;
  agreement alike;

  friend bool operator==(const pair&, const pair&) = default;
};

}  // namespace weir::policy::comparison
