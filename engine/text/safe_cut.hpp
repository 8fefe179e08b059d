// Where a text may be cut in two whose pieces are those of the whole, for every pre-tokenizer pattern here:
// behind a letter or number and before a character that is no letter, number, mark or apostrophe and not of
// the kana blocks, whose punctuation DeepSeek's pattern counts as kana. No pattern has a piece that goes on
// from a letter or number to such a character, none looks back, and what a pattern looks ahead for is decided
// the same by the end of the text as by such a character. Pure; any thread.
#pragma once

#include <cstddef>
#include <string_view>

#include "engine/text/unicode_classes.hpp"

namespace weir::engine::text {

// The first such place at or after byte `from`, or text.size().
std::size_t find_safe_cut(const unicode_classes& classes, std::string_view text, std::size_t from);

}  // namespace weir::engine::text
