#include "engine/text/deepseek_pattern.hpp"

#include "engine/text/scan_cursor.hpp"

namespace weir::engine::text {
namespace {

bool is_kana_or_han(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
}

// Within a part between numbers, kana and Han: any of these is the end of it.
struct part_cursor {
  scan_cursor c;
  const char* at;
  int flags = 0;

  explicit part_cursor(const scan_cursor& cursor) : c(cursor), at(cursor.at) { look(); }
  void look() {
    at = c.at;
    const bool ends = c.is(k_number | k_end) || (c.size == 3 && is_kana_or_han(c.code_point()));
    flags = ends ? k_end : c.flags;
  }
  void advance() {
    c.advance();
    look();
  }
  bool is(int any_of) const { return (flags & any_of) != 0; }
  bool is_word() const { return is(k_letter) || is_mark(); }
  bool is_mark() const { return !is(k_letter) && is(k_upper | k_lower); }
  bool is_opener() const { return !is(k_newline | k_letter | k_punctuation | k_end); }  // [^\r\n L P S]
};

bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

const char* match_word(part_cursor c) {
  part_cursor word = c;
  if (c.is_opener()) word.advance();
  if (!word.is_word()) word = c;
  if (!word.is_word()) return nullptr;
  while (word.is_word()) word.advance();
  return word.at;
}

const char* match_part(part_cursor c) {
  if (is_ascii_punctuation(*c.at) && c.at + 1 < c.c.end && is_ascii_letter(c.at[1])) {
    const char* end = c.at + 1;
    while (end < c.c.end && is_ascii_letter(*end)) ++end;
    return end;
  }
  if (const char* end = match_word(c)) return end;
  part_cursor symbols = c;
  if (*c.at == ' ') symbols.advance();
  if (symbols.is(k_punctuation)) {
    while (symbols.is(k_punctuation)) symbols.advance();
    while (symbols.is(k_newline)) symbols.advance();
    return symbols.at;
  }
  return c.is(k_space) ? match_space(c) : nullptr;
}

}  // namespace

std::size_t deepseek_piece_bytes(const unicode_classes& classes, std::string_view text) {
  scan_cursor c(classes, text.data(), text.data() + text.size());
  const auto bytes = [&text](const char* end) { return static_cast<std::size_t>(end - text.data()); };
  if (c.is(k_number)) {
    for (int i = 0; i < 3 && c.is(k_number); ++i) c.advance();
    return bytes(c.at);
  }
  if (c.size == 3 && is_kana_or_han(c.code_point())) {
    while (c.size == 3 && !c.is(k_number) && is_kana_or_han(c.code_point())) c.advance();
    return bytes(c.at);
  }
  part_cursor part(c);
  if (const char* end = match_part(part)) return bytes(end);
  do part.advance();
  while (!part.is(k_end) && match_part(part) == nullptr);
  return bytes(part.at);
}

}  // namespace weir::engine::text
