#include "engine/text/pretokenizer.hpp"

#include <cstdint>

namespace weir::engine::text {
namespace {

// A place in valid UTF-8 text with the flags of the character there; at the end of the text size is 0 and
// flags are k_end.
constexpr std::uint8_t k_end = 0x80;

struct cursor {
  const unicode_classes* classes;
  const char* at;
  const char* end;
  std::uint8_t flags = k_end;
  std::uint8_t size = 0;

  cursor(const unicode_classes& c, const char* first, const char* last) : classes(&c), at(first), end(last) {
    look();
  }

  void look() {
    if (at == end) {
      flags = k_end;
      size = 0;
      return;
    }
    const auto byte = [this](int i) { return static_cast<char32_t>(static_cast<std::uint8_t>(at[i])); };
    const char32_t lead = byte(0);
    if (lead < 0x80) {
      size = 1;
      flags = classes->ascii_flags(lead);
      return;
    }
    char32_t code_point = 0;
    if (lead >= 0xF0) {
      code_point =
          ((lead & 0x07) << 18) | ((byte(1) & 0x3F) << 12) | ((byte(2) & 0x3F) << 6) | (byte(3) & 0x3F);
      size = 4;
    } else if (lead >= 0xE0) {
      code_point = ((lead & 0x0F) << 12) | ((byte(1) & 0x3F) << 6) | (byte(2) & 0x3F);
      size = 3;
    } else {
      code_point = ((lead & 0x1F) << 6) | (byte(1) & 0x3F);
      size = 2;
    }
    flags = classes->flags(code_point);
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
};

char lower_ascii(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

// The end of the contraction at `at`, or `at`.
const char* after_contraction(const char* at, const char* end) {
  if (end - at < 2 || *at != '\'') return at;
  const char c = lower_ascii(at[1]);
  if (c == 's' || c == 't' || c == 'm' || c == 'd') return at + 2;
  if (end - at < 3) return at;
  if (at[1] == '\xC5' && at[2] == '\xBF') return at + 3;  // U+017F, which folds to s
  const char d = lower_ascii(at[2]);
  const bool two_letters = ((c == 'r' || c == 'v') && d == 'e') || (c == 'l' && d == 'l');
  return two_letters ? at + 3 : at;
}

struct word_ends {
  const char* second_rule = nullptr;  // [upper]* [lower]+, or null where it does not match
  const char* third_rule = nullptr;   // [upper]+ [lower]*, only looked at where the second rule fails
};

// Greedy [upper]* stops before a character that is not upper. If that one is lower, the rest follows.
// Otherwise [upper]* gives back until the character given back is lower too, and [lower]+ takes just that
// one: all behind it are upper only.
word_ends match_word(cursor c) {
  const char* first = c.at;
  const char* after_last_both = nullptr;
  while (c.is(k_upper)) {
    const bool both = c.is(k_lower);
    c.advance();
    if (both) after_last_both = c.at;
  }
  if (c.is(k_lower)) {
    c.skip(k_lower);
    return {c.at, nullptr};
  }
  return {after_last_both, c.at > first ? c.at : nullptr};
}

// Rules 2 and 3, or null. A mark is the only character that can be the opener as well as part of the word.
const char* match_letters(const cursor& c) {
  cursor word = c;
  if (c.is_opener()) word.advance();
  const word_ends ends = match_word(word);
  if (ends.second_rule != nullptr) return after_contraction(ends.second_rule, c.end);
  if (c.is_opener() && c.is(k_lower)) return after_contraction(word.at, c.end);
  if (ends.third_rule != nullptr) return after_contraction(ends.third_rule, c.end);
  return nullptr;
}

// Rules 6 to 8.
const char* match_space(cursor c) {
  const char* first = c.at;
  const char* last = c.at;  // where the last character of the run begins
  const char* after_newline = nullptr;
  while (c.is(k_space)) {
    const bool newline = c.is(k_newline);
    last = c.at;
    c.advance();
    if (newline) after_newline = c.at;
  }
  if (after_newline != nullptr) return after_newline;
  return c.at == c.end || last == first ? c.at : last;
}

}  // namespace

std::size_t pretokenizer::first_piece_bytes(std::string_view text) const {
  const char* first = text.data();
  cursor c(*classes_, first, first + text.size());
  const auto bytes = [first](const char* end) { return static_cast<std::size_t>(end - first); };
  if (c.is(k_han)) {
    c.skip(k_han);
    return bytes(c.at);
  }
  if (const char* end = match_letters(c)) return bytes(end);
  if (c.is(k_number)) {
    for (int i = 0; i < 3 && c.is(k_number); ++i) c.advance();
    return bytes(c.at);
  }
  cursor symbols = c;
  if (*first == ' ') symbols.advance();
  if (!symbols.is_symbol()) return bytes(match_space(c));
  while (symbols.is_symbol()) symbols.advance();
  symbols.skip(k_newline);
  return bytes(symbols.at);
}

}  // namespace weir::engine::text
