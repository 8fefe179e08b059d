// The character classes that the pre-tokenizer patterns distinguish, one byte of flags per code point.
//
// The data are of Unicode 16, the version of the regular expressions in the published tokenizer, and are
// compiled in: a system library's tables would change ids with the system. White space is the property
// White_Space, Han is Script=Han. Immutable; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace weir::engine::text {

enum char_flag : std::uint8_t {
  k_han = 1,           // Script=Han, of any category
  k_upper = 2,         // Lu, Lt, Lm, Lo, M and not Han: may stand in the first part of a word
  k_lower = 4,         // Ll, Lm, Lo, M and not Han: may stand in the second part of a word
  k_letter = 8,        // L
  k_number = 16,       // N
  k_space = 32,        // White_Space
  k_newline = 64,      // CR and LF
  k_punctuation = 128  // P and S
};

// Whether a pattern treats Han by itself. If not, no character has k_han, and Han letters and marks are upper
// and lower like all others that have no case.
enum class han : std::uint8_t { apart, as_others };

// Runs of code points with equal flags, ascending from 0: (first code point << 8) | flags.
std::span<const std::uint32_t> unicode_class_runs();

class unicode_classes final {
 public:
  explicit unicode_classes(han treatment = han::apart);

  // REQUIRES: code_point <= 0x10FFFF.
  std::uint8_t flags(char32_t code_point) const {
    return blocks_[(block_index_[code_point >> 8] << 8) | (code_point & 0xFF)];
  }

  // The same for code points below 128, which are the first block.
  std::uint8_t ascii_flags(char32_t code_point) const { return blocks_[code_point]; }

 private:
  std::array<std::uint16_t, 0x1100> block_index_{};  // code point / 256 -> block
  std::vector<std::uint8_t> blocks_;                 // [blocks, 256], equal blocks stored once
};

}  // namespace weir::engine::text
