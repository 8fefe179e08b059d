// How much two texts share, whatever the order of their words. Pure; any thread.
#pragma once

#include <string_view>

namespace weir::policy::comparison {

// Words are runs of ASCII letters, digits, underscores and characters from U+0080 up to U+1FFF; any other
// visible character is a word of its own, so each one from U+2000 on: punctuation, and scripts that are
// written without spaces; white space separates. F1 over the two multisets of words: 2 * common / (words of a
// + words of b), where a word that stands m times in one and n times in the other is common min(m, n) times.
// 1 for two texts without a word, 0 where only one has any. Case counts. Malformed UTF-8 is compared by its
// bytes.
double word_overlap(std::string_view a, std::string_view b);

}  // namespace weir::policy::comparison
