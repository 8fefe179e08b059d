// A place in text and the classes of the character there: what the patterns' scanners step with. Values; one
// thread.
#pragma once

#include <cstdint>

#include "engine/text/unicode_classes.hpp"

namespace weir::engine::text {

inline constexpr int k_end = 0x100;  // the flags at the end of the text, where size is 0

// REQUIRES: what lies between `at` and `end` is valid UTF-8.
struct scan_cursor {
  const unicode_classes* classes;
  const char* at;
  const char* end;
  int flags = k_end;
  std::uint8_t size = 0;

  scan_cursor(const unicode_classes& c, const char* first, const char* last)
      : classes(&c), at(first), end(last) {
    look();
  }

  void look() {
    if (at == end) {
      flags = k_end;
      size = 0;
      return;
    }
    const char32_t lead = byte(0);
    if (lead < 0x80) {
      size = 1;
      flags = classes->ascii_flags(lead);
      return;
    }
    size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    flags = classes->flags(code_point());
  }
  char32_t code_point() const {
    switch (size) {
      case 4:
        return ((byte(0) & 0x07) << 18) | ((byte(1) & 0x3F) << 12) | ((byte(2) & 0x3F) << 6) |
               (byte(3) & 0x3F);
      case 3:
        return ((byte(0) & 0x0F) << 12) | ((byte(1) & 0x3F) << 6) | (byte(2) & 0x3F);
      case 2:
        return ((byte(0) & 0x1F) << 6) | (byte(1) & 0x3F);
      default:
        return byte(0);
    }
  }
  void advance() {
    at += size;
    look();
  }
  bool is(int any_of) const { return (flags & any_of) != 0; }
  bool is_symbol() const { return (flags & (k_space | k_letter | k_number | k_end)) == 0; }    // [^\s L N]
  bool is_opener() const { return (flags & (k_newline | k_letter | k_number | k_end)) == 0; }  // [^\r\n L N]
  void skip(int any_of) {
    while (is(any_of)) advance();
  }

 private:
  char32_t byte(int i) const { return static_cast<char32_t>(static_cast<std::uint8_t>(at[i])); }
};

// The end of a run of white space by the rules `\s*[\r\n]+`, `\s+(?!\S)` and `\s+`, in this order; without
// the first where `newlines` is false. REQUIRES: c is at white space.
template <class Cursor>
const char* match_space(Cursor c, bool newlines = true) {
  const char* first = c.at;
  const char* last = c.at;  // where the last character of the run begins
  const char* after_newline = nullptr;
  while (c.is(k_space)) {
    const bool newline = newlines && c.is(k_newline);
    last = c.at;
    c.advance();
    if (newline) after_newline = c.at;
  }
  if (after_newline != nullptr) return after_newline;
  return c.is(k_end) || last == first ? c.at : last;
}

}  // namespace weir::engine::text
