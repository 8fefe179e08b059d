#include "engine/text/quote.hpp"

namespace weir::engine::text {

namespace {

// The letter behind the backslash, or 0 for \u00XX.
constexpr char short_escape(unsigned char c) {
  switch (c) {
    case '"':
    case '\\':
      return static_cast<char>(c);
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    case '\f':
      return 'f';
    case '\b':
      return 'b';
    default:
      return 0;
  }
}

}  // namespace

void append_quoted(std::string& out, std::string_view text) {
  static constexpr char k_hex[] = "0123456789abcdef";
  out.push_back('"');
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, start, i - start);
    start = i + 1;
    out.push_back('\\');
    if (const char letter = short_escape(c); letter != 0) {
      out.push_back(letter);
    } else {
      out += "u00";
      out.push_back(k_hex[c >> 4]);
      out.push_back(k_hex[c & 15]);
    }
  }
  out.append(text, start, text.size() - start);
  out.push_back('"');
}

}  // namespace weir::engine::text
