// Cuts text into the pieces within which BPE merges, exactly as Kimi's published pattern does, without a
// regex engine.
//
// The pattern's alternatives, tried in this order at each place (Han, upper and lower as in
// unicode_classes.hpp):
//   1  [Han]+
//   2  [^\r\n L N]? [upper]* [lower]+ contraction?
//   3  [^\r\n L N]? [upper]+ [lower]* contraction?
//   4  N{1,3}
//   5  ' '? [^\s L N]+ [\r\n]*
//   6  \s* [\r\n]+
//   7  \s+ not followed by \S
//   8  \s+
// where a contraction is 's 't 're 've 'm 'll 'd in any case ('s also with U+017F). Each rule's backtracking
// has a closed form, so a piece costs a constant number of passes over its characters and nothing can exceed
// a limit or a stack. Immutable; any thread.
#pragma once

#include <string_view>

#include "engine/text/unicode_classes.hpp"

namespace weir::engine::text {

class pretokenizer final {
 public:
  // REQUIRES: classes outlive this object.
  explicit pretokenizer(const unicode_classes& classes) : classes_(&classes) {}

  // Bytes of the first piece, at least one character. REQUIRES: text is valid UTF-8 and not empty.
  std::size_t first_piece_bytes(std::string_view text) const;

 private:
  const unicode_classes* classes_;
};

}  // namespace weir::engine::text
