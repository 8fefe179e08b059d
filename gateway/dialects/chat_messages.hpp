// The system blocks and turns of a messages request as chat messages: tool results become messages of their
// own, in front of what else the user's turn says. Pure; any thread.
#pragma once

#include <string>

#include "gateway/dialects/source_json.hpp"

namespace weir::gateway::dialects {

// The messages, comma between. `answers`: an answer is wanted, which cannot go on with a last message of the
// assistant's. The first fault is left in `in`, the reader of the request's root.
std::string write_chat_messages(api::field_reader& in, const source_json& source, bool answers);

}  // namespace weir::gateway::dialects
