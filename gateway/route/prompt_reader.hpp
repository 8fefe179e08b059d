// The prompt of a generation request, as far as it decides what a replica may hold of it. Lenient: a body
// that the embedded engine would refuse still has a prompt, and what cannot be rendered is keyed by its text.
// Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/text/chat_format.hpp"
#include "gateway/api/generation_call.hpp"

namespace weir::gateway::route {

// Text that could not be understood further but begins alike where prompts begin alike.
struct opaque_text {
  std::string text;
};

using prompt_content =
    std::variant<engine::text::chat_prompt, std::string, std::vector<std::int32_t>, opaque_text>;

// Nothing where there is no prompt: the target will say so.
std::optional<prompt_content> read_prompt(const api::generation_call& call);

}  // namespace weir::gateway::route
