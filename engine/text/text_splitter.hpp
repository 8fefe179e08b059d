// The cuts that Kimi's published tokenizer makes before its pattern runs, which decide ids near them: chunks
// of 400,000 characters, and within a chunk runs of white space or of anything else longer than 25,000
// characters. "White space" is Python's str.isspace() here: White_Space and U+001C to U+001F. An invalid byte
// counts as one character. Pure; any thread.
#pragma once

#include <cstddef>
#include <string_view>

#include "engine/text/unicode_classes.hpp"

namespace weir::engine::text {

inline constexpr std::size_t k_chunk_chars_max = 400'000;
inline constexpr std::size_t k_run_chars_max = 25'000;

// The length in bytes of the first part of `text`, the whole where no cut applies. State runs on through the
// parts of one text: make one splitter per text and take the parts in order.
class text_splitter final {
 public:
  text_splitter(const unicode_classes& classes, std::string_view text) : classes_(&classes), rest_(text) {}

  // The next part, empty at the end.
  std::string_view next();

 private:
  const unicode_classes* classes_;
  std::string_view rest_;
  std::size_t chunk_chars_ = 0;  // of the current chunk, already handed out
};

}  // namespace weir::engine::text
