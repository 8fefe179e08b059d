// POST /v1/chat/completions: request JSON to a typed request. Unknown fields are accepted and ignored here (a
// relayed request forwards the original body); a known field with a wrong type or value is an error that
// names it. Values; any thread.
#pragma once

#include <string_view>

#include "engine/text/chat_format.hpp"
#include "gateway/api/answer_form.hpp"
#include "gateway/api/options.hpp"

namespace weir::gateway::api {

inline constexpr std::size_t k_messages_max = 65'536;
inline constexpr std::size_t k_tools_max = 128;           // as OpenAI
inline constexpr std::size_t k_tool_name_bytes_max = 64;  // as OpenAI
inline constexpr std::size_t k_parts_max = 4096;          // content parts of one message

struct chat_request {
  generation_options options;
  engine::text::chat_prompt prompt;
  std::optional<answer_form> answer;  // what it is bound to, if anything
};

result<chat_request> parse_chat_request(const std::string& body);

// Its messages and tools alone, whatever else the body asks for.
result<engine::text::chat_prompt> parse_chat_prompt(const std::string& body);

}  // namespace weir::gateway::api
