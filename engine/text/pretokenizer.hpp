// Cuts text into the pieces within which BPE merges, exactly as the published patterns do, without a regex
// engine. Each pattern's backtracking has a closed form, so a piece costs a constant number of passes over
// its characters and nothing can exceed a limit or a stack. Immutable; any thread.
#pragma once

#include <optional>
#include <string_view>

#include "engine/text/unicode_classes.hpp"

namespace weir::engine::text {

// The alternatives of each pattern, tried in this order at each place. A contraction is 's 't 're 've 'm 'll
// 'd in any case ('s also with U+017F); upper and lower as in unicode_classes.hpp.
enum class split_pattern : std::uint8_t {
  // [Han]+
  // [^\r\n L N]? [upper]* [lower]+ contraction?
  // [^\r\n L N]? [upper]+ [lower]* contraction?
  // N{1,3}
  // ' '? [^\s L N]+ [\r\n]*
  // \s* [\r\n]+
  // \s+ not followed by \S
  // \s+
  kimi,
  // The same without the first and without a difference for Han, and with [\r\n/]* behind symbols.
  o200k,
  // contraction; [^\r\n L N]? L+; then as above from N{1,3} on. Llama 3 has the same.
  cl100k,
  // The same with single numbers.
  qwen2,
  // contraction, lower case only; ' '? L+; ' '? N+; ' '? [^\s L N]+; the last two.
  gpt2,
  // Numbers in threes and runs of kana and common Han are cut out first, each part between them by itself:
  // ASCII punctuation with [A-Za-z]+; [^\r\n L P S]? [L M]+; ' '? [P S]+ [\r\n]*; the last three; and what
  // none of these matches, up to where one does.
  deepseek_v3,
};

// The pattern of a tokenizer.json's Split rules by their exact text, several of them joined by '\n'.
std::optional<split_pattern> recognise_pattern(std::string_view regex);

class pretokenizer final {
 public:
  explicit pretokenizer(split_pattern pattern)
      : pattern_(pattern), classes_(pattern == split_pattern::kimi ? han::apart : han::as_others) {}

  // Bytes of the first piece, at least one character. REQUIRES: text is valid UTF-8 and not empty.
  std::size_t first_piece_bytes(std::string_view text) const;

  const unicode_classes& classes() const noexcept { return classes_; }

 private:
  split_pattern pattern_;
  unicode_classes classes_;
};

}  // namespace weir::engine::text
