// What chat targets of one family take otherwise than a client says it, as edits of a request's text: every
// byte that need not change stays. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gateway/errc.hpp"

namespace weir::gateway::dialects {

// Where an assistant message holds what the model thought.
enum class reasoning_key : std::uint8_t { as_sent, reasoning, reasoning_content };

struct chat_fixes {
  bool drop_sampling = false;      // temperature, top_p, n and both penalties are fixed there
  bool kimi_efforts = false;       // reasoning_effort is low, high or max
  bool completion_tokens = false;  // max_tokens is called max_completion_tokens
  reasoning_key reasoning = reasoning_key::as_sent;
};

inline constexpr chat_fixes k_moonshot_fixes{.drop_sampling = true,
                                             .kimi_efforts = true,
                                             .completion_tokens = true,
                                             .reasoning = reasoning_key::reasoning_content};

// Newer vLLM ignores reasoning_content in requests.
inline constexpr chat_fixes k_vllm_fixes{.reasoning = reasoning_key::reasoning};

// Nothing where no byte has to change. `body`: one JSON object as read_generation_call accepts it. An `n`
// other than 1 that would be dropped is errc::unsupported.
result<std::optional<std::string>> fix_chat_request(const std::string& body, const chat_fixes& fixes);

}  // namespace weir::gateway::dialects
