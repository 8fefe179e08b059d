// A client's messages request for chat targets: the body of POST /v1/messages, or of its count_tokens,
// becomes that of POST /v1/chat/completions. What cannot be said there is an error that names the field:
// documents, server and built-in tools, citations, containers and whatever the gateway does not know.
// README.md lists the fields that are left out. Pure; any thread.
#pragma once

#include <string>

#include "gateway/errc.hpp"

namespace weir::gateway::dialects {

enum class messages_endpoint {
  messages,
  count_tokens,  // no max_tokens, no stream
};

// The model's name stays the client's; thinking becomes the assistant messages' `reasoning`; a stream asks
// for its usage event, which the answer needs. `body`: of a size that the caller bounds; memory and time are
// linear in it.
result<std::string> to_chat_request(const std::string& body, messages_endpoint endpoint);

}  // namespace weir::gateway::dialects
