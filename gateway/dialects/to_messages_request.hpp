// A chat request for a target that speaks Anthropic's messages API: the body of POST /v1/chat/completions
// becomes that of POST /v1/messages. What the other API cannot say is an error that names the field (errc
// bad_request for what is no chat request, unsupported for what another target may do); README.md lists what
// is left out because the answer stays the same kind of answer. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gateway/errc.hpp"

namespace weir::gateway::dialects {

// How a model is told to think. Which one it takes is a fact of the model.
enum class thinking_form {
  adaptive,  // thinking.type "adaptive" with output_config.effort
  budget,    // thinking.type "enabled" with a number of tokens; earlier models
};

struct messages_target {
  std::string_view model;                  // its name there; empty: as the client wrote it
  std::int64_t max_tokens_default = 4096;  // that API demands one; REQUIRES: at least 1
  thinking_form thinking = thinking_form::adaptive;
  bool sampling = true;  // the model takes temperature, top_p and top_k
};

// `body`: the client's, of a size that the caller bounds. Memory and time are linear in it.
result<std::string> to_messages_request(const std::string& body, const messages_target& target);

}  // namespace weir::gateway::dialects
