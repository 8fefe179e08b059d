// A messages API's answer as a chat completion. Text blocks become the content, thinking both `reasoning` and
// `reasoning_content`, tool uses tool calls whose arguments are the text of their input. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "gateway/api/response_writer.hpp"
#include "gateway/errc.hpp"

namespace weir::gateway::dialects {

struct chat_reply {
  std::string body;
  api::token_usage usage;
};

// `identity.id` empty: the message's own. What is no message is errc::upstream_failed.
result<chat_reply> to_chat_reply(const std::string& message, const api::answer_identity& identity);

// A stop_reason as a finish_reason.
std::string_view to_finish_reason(std::string_view stop_reason) noexcept;

}  // namespace weir::gateway::dialects
