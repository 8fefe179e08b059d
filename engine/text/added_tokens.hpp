// The tokens of a vocabulary that text matching finds before the pattern and merges run: special tokens, and
// those that a Hugging Face tokenizer also finds in ordinary text. Immutable; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir::engine::text {

struct added_token {
  std::string content;
  std::int32_t id;
  bool special = true;  // false: matched in ordinary text too
};

// Finds the longest of some contents at a place. Narrows their sorted list byte by byte, so ordinary text
// costs one look at a table.
class content_index final {
 public:
  // REQUIRES: `tokens` outlives this object and does not move.
  content_index(const std::vector<added_token>& tokens, bool specials_too);

  bool empty() const noexcept { return by_content_.empty(); }
  std::size_t bytes_max() const noexcept { return bytes_max_; }

  // The longest that `text` begins with, or null.
  const added_token* longest_at(std::string_view text) const;

  // Where the first match in `text` begins, text.size() if nowhere; `found` is its longest.
  std::size_t first_match(std::string_view text, const added_token*& found) const;

 private:
  const std::vector<added_token>* tokens_;
  std::vector<std::uint32_t> by_content_;  // indexes of tokens, sorted by their bytes
  std::array<bool, 256> begins_{};         // first bytes
  std::size_t bytes_max_ = 0;
};

}  // namespace weir::engine::text
