// A request of OpenAI's responses API as a chat request, for a target that answers chats: the embedded
// engine. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "gateway/errc.hpp"

namespace weir::gateway::dialects {

struct responses_as_chat {
  std::string body;  // of the chat request
  std::string echo;  // members that the answer repeats from the request, as JSON without braces
};

// Items that only say what a model thought are left out. Refused: what is no text, and tools other than
// functions.
result<responses_as_chat> responses_to_chat(const std::string& body);

// A fault of the chat request in the words of the responses API.
error as_responses_error(error why);

}  // namespace weir::gateway::dialects
