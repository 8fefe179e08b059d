// Token details to the logprobs objects of chat and completions. A token's text may be part of a character:
// the "token" and "text" fields then hold U+FFFD, and chat's "bytes" field holds the truth. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/api/choice_event.hpp"

namespace weir::gateway::api {

// {"content":[...],"refusal":null}, or "null" without tokens.
std::string logprobs_json(const std::vector<token_detail>& tokens);

// {"tokens":[],"token_logprobs":[],"top_logprobs":[],"text_offset":[]}, or "null". `text_offset` counts
// characters of the choice's text and is advanced over these tokens.
std::string completion_logprobs_json(const std::vector<token_detail>& tokens, std::size_t& text_offset);

// `bytes` with every invalid sequence replaced by U+FFFD.
std::string valid_utf8(std::string_view bytes);

}  // namespace weir::gateway::api
