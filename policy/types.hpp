// What a routing decision sees and says: plain values, copied out of the gateway's state before the decision
// is made. Immutable while a decision runs; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::policy {

// What a request needs of a target.
struct request_facts {
  std::int64_t prompt_tokens = 0;      // 0 = not known yet
  std::int64_t output_tokens_min = 1;  // tokens that must fit behind the prompt
  bool needs_image = false;
  bool needs_structured_output = false;  // response_format json_object or json_schema
  bool needs_forced_tool = false;        // tool_choice required or named
};

// One target as it stands now.
struct target_view {
  std::string_view name;
  std::int64_t context_tokens = 0;  // 0 = not known
  bool ready = false;
  bool full = false;  // at its limit of requests at once
  bool takes_images = false;
  bool structured_output = false;
  bool forced_tools = false;
};

enum class verdict {
  chosen,
  eligible,              // could serve, another was picked
  not_ready,             // loading, failed or draining
  at_capacity,           // as many requests run as it takes
  no_images,             // the request holds images, the target takes none
  no_structured_output,  // the target cannot guarantee a JSON format
  no_forced_tools,       // the target cannot guarantee a tool call
  context_too_small,     // prompt and output do not fit
};

struct candidate {
  std::string_view name;
  verdict why = verdict::eligible;
};

// The pick and the reason for every target, in the order given.
struct decision {
  static constexpr std::size_t k_none = static_cast<std::size_t>(-1);
  std::size_t picked = k_none;  // index into the targets given
  std::vector<candidate> candidates;
};

std::string_view to_text(verdict why) noexcept;

}  // namespace weir::policy
