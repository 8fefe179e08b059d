// A text from outside as it may stand in a log or on a terminal: valid UTF-8 without control characters.
// Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weir::engine::text {

// Whether `text` is that already.
bool is_printable(std::string_view text) noexcept;

// At most `bytes_max` bytes of it, never a part of a character. Control characters (C0, DEL, C1, line and
// paragraph separators, those that turn the direction of text) and bytes that are no UTF-8 become U+FFFD
// each.
std::string printable(std::string_view text, std::size_t bytes_max = std::string_view::npos);

}  // namespace weir::engine::text
