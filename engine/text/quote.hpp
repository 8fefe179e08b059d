// A text as a JSON string, as Python's json.dumps(..., ensure_ascii=False) writes it: only quotes,
// backslashes and control characters are escaped. Prompts and answers share it, so that what a template
// quotes and what a client reads agree. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace weir::engine::text {

// Appends `text` with its quotes.
void append_quoted(std::string& out, std::string_view text);

}  // namespace weir::engine::text
