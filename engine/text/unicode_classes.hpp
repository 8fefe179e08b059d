// The character classes that Kimi's pre-tokenizer pattern distinguishes, one byte of flags per code point.
//
// General categories and the Han script come from PCRE2's tables, read once at load. White space is the Unicode property
// White_Space, which PCRE2's \s is not (it counts U+180E). Han is Script=Han; PCRE2's plain \p{Han} is Script_Extensions.
// Immutable after build(); any thread.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/result.hpp"

namespace weir::engine::text {

enum char_flag : std::uint8_t {
  k_han = 1,      // Script=Han, of any category
  k_upper = 2,    // Lu, Lt, Lm, Lo, M and not Han: may stand in the first part of a word
  k_lower = 4,    // Ll, Lm, Lo, M and not Han: may stand in the second part of a word
  k_letter = 8,   // L
  k_number = 16,  // N
  k_space = 32,   // White_Space
  k_newline = 64  // CR and LF
};

class unicode_classes final {
 public:
  // errc::unsupported when the PCRE2 library was built without Unicode.
  static result<unicode_classes> build();

  // REQUIRES: code_point <= 0x10FFFF.
  std::uint8_t flags(char32_t code_point) const {
    return blocks_[(block_index_[code_point >> 8] << 8) | (code_point & 0xFF)];
  }

 private:
  unicode_classes() = default;

  std::array<std::uint16_t, 0x1100> block_index_{};  // code point / 256 -> block
  std::vector<std::uint8_t> blocks_;                 // [blocks, 256], equal blocks stored once
};

}  // namespace weir::engine::text
