// A chat completion as a messages API's answer: reasoning becomes a thinking block, content a text block,
// tool calls tool_use blocks, in that order. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "gateway/api/response_writer.hpp"
#include "gateway/errc.hpp"

namespace weir::gateway::dialects {

struct messages_identity {
  std::string id;     // msg_...
  std::string model;  // as the client named it
};

struct messages_reply {
  std::string body;
  api::token_usage usage;
};

// Reads the choice of index 0. What is no chat completion, or has tool arguments that are not one JSON
// object, is errc::upstream_failed; a call that the answer's limit cut is left out.
result<messages_reply> to_messages_reply(const std::string& completion, const messages_identity& identity);

// The answer of count_tokens.
std::string count_tokens_json(std::int64_t input_tokens);

// A finish_reason as a stop_reason. `has_tools`: tools were called, whatever the reason says; `refused`: the
// answer was a refusal.
std::string_view to_stop_reason(std::string_view finish_reason, bool has_tools, bool refused) noexcept;

}  // namespace weir::gateway::dialects
