// A trace's requests as prompts that can be sent: equal block ids give equal text or equal token ids, other
// ones differ from their first token on. Text has 4 bytes a token, as the mock counts, and as a gateway
// estimates that has no tokenizer. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "loadtest/replay/trace.hpp"

namespace weir::loadtest::replay {

enum class prompt_form : std::uint8_t { text, ids };

inline constexpr std::int64_t k_text_token_bytes = 4;
inline constexpr int k_id_digits = 5;  // every id has as many

// Appends the JSON value of the prompt, `input_tokens` long. `number`: of the request, which makes up what
// its blocks do not cover.
void append_prompt(const trace_request& request, std::uint64_t number, prompt_form form, std::string& out);

}  // namespace weir::loadtest::replay
