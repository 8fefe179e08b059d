// POST /v1/completions: request JSON to a typed request. Values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gateway/api/options.hpp"

namespace weir::gateway::api {

inline constexpr std::int64_t k_completion_tokens_default = 16;  // as OpenAI
inline constexpr std::size_t k_prompt_tokens_max = 4'194'304;    // ids in one prompt array

// A prompt is text or token ids.
using completion_prompt = std::variant<std::string, std::vector<std::int32_t>>;

struct completion_request {
  generation_options options;
  std::vector<completion_prompt> prompts;  // prompts x n <= k_choices_max
  bool echo = false;
};

result<completion_request> parse_completion_request(const std::string& body);

}  // namespace weir::gateway::api
