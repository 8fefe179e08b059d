// The cuts that Kimi's published tokenizer makes before its pattern runs, which decide ids near them: chunks
// of 400,000 characters, and within a chunk runs of white space or of anything else longer than 25,000
// characters. "White space" is Python's str.isspace() here: White_Space and U+001C to U+001F. An invalid byte
// counts as one character. Pure; any thread.
#pragma once

#include <cstddef>
#include <string_view>

#include "engine/text/tokenizer.hpp"
#include "engine/text/unicode_classes.hpp"

namespace weir::engine::text {

inline constexpr std::size_t k_chunk_chars_max = 400'000;
inline constexpr std::size_t k_run_chars_max = 25'000;

// The parts of a text, in order. State runs on through them; a text that comes in slices hands the state of
// one slice to the splitter of the next.
class text_splitter final {
 public:
  text_splitter(const unicode_classes& classes, std::string_view text, const text_state& state = {})
      : classes_(&classes), rest_(text), state_(state) {}

  // The next part, empty at the end.
  std::string_view next();

  // After next() gave nothing: the state behind the whole text.
  const text_state& state() const noexcept { return state_; }

 private:
  void pass_whole_rest();

  const unicode_classes* classes_;
  std::string_view rest_;
  text_state state_;
};

}  // namespace weir::engine::text
