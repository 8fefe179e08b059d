// Unicode's normalization form C, which some tokenizers apply to text first. Data of Unicode 16, compiled in.
// Immutable; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weir::engine::text {

struct nfc_data {
  std::span<const std::uint32_t> marks;           // runs: first code point << 8 | order of combining, 0: none
  std::span<const std::uint32_t> decompositions;  // code point, count, that many code points
  std::span<const std::uint32_t> compositions;    // first, second, both composed
};
nfc_data nfc_tables();

class nfc_normalizer final {
 public:
  nfc_normalizer();

  // Whether no character of `text` can change or take part in a change: true means it is in form C.
  // REQUIRES: text is valid UTF-8, here and below.
  bool is_plain(std::string_view text) const;

  std::string normalized(std::string_view text) const;

 private:
  void decompose(char32_t c, std::u32string& out) const;
  void reorder(std::u32string& text) const;
  void compose(std::u32string& text) const;
  char32_t composed(char32_t first, char32_t second) const;  // 0: not
  std::uint8_t order(char32_t c) const;

  std::vector<bool> plain_;                                      // [code points]
  std::vector<std::uint32_t> marks_;                             // as nfc_data
  std::unordered_map<char32_t, std::u32string> decompositions_;  // without Hangul syllables
  std::unordered_map<std::uint64_t, char32_t> compositions_;     // first << 32 | second
};

}  // namespace weir::engine::text
