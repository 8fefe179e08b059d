// A target's error as OpenAI's SDKs read errors: {"error":{message, type, param, code}} with a code that is
// text or null. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weir::gateway::upstream {

// Whether a final status is the target's answer to the client's request. Any other (a redirect, a refused
// credential of ours, an unknown path) is between the gateway and the target.
bool passes_to_client(int status) noexcept;

// What an error body says, cut to a length that is read: a message without an error object is the body.
struct error_text {
  std::string code;
  std::string type;
  std::string message;
};
error_text read_error(const std::string& body);

// The body to send instead of `body`, or nothing where it has the shape. vLLM's integer codes, its older flat
// form, {"detail":...}, {"error":"text"} and bodies that are no JSON keep their message.
std::optional<std::string> normalise_error(int status, const std::string& body);

}  // namespace weir::gateway::upstream
