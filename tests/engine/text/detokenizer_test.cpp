#include "engine/text/detokenizer.hpp"

#include <catch2/catch.hpp>

#include "tests/engine/text/support.hpp"

namespace weir::engine::text {
namespace {

struct row {
  const char* name;
  std::string bytes;  // pushed one token per byte
  std::string text;
};

const std::string k_bad = "\xEF\xBF\xBD";

// Counts of U+FFFD are those of the WHATWG UTF-8 decoder.
const row k_rows[] = {
    {"plain", "abc", "abc"},
    {"all lengths", "é中😀", "é中😀"},
    {"stray continuation", "a\x80z", "a" + k_bad + "z"},
    {"truncated then plain", "\xE4\xB8z", k_bad + "z"},
    {"truncated then a new character", "\xF0\x9F\xE4\xB8\xAD", k_bad + "中"},
    {"overlong", "\xC0\x80", k_bad + k_bad},
    {"overlong of three", "\xE0\x80\x80", k_bad + k_bad + k_bad},
    {"surrogate", "\xED\xA0\x80", k_bad + k_bad + k_bad},
    {"past the last code point", "\xF4\x90\x80\x80", k_bad + k_bad + k_bad + k_bad},
    {"maximal subpart of four", "\xF0\x90\x80\x41", k_bad + "A"},
    {"invalid lead", "\xFF\xFE", k_bad + k_bad},
    {"ends within a character", "a\xF0\x9F\x98", "a" + k_bad},
};

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto lead = static_cast<std::uint8_t>(text[0]);
    const std::size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (lead >= 0x80 && lead < 0xC2) return false;
    if (size > text.size()) return false;
    text.remove_prefix(size);
  }
  return true;
}

TEST_CASE("bytes to text") {
  const auto tok = weir_tiny();
  for (const auto& r : k_rows) {
    INFO(r.name);
    detokenizer d(*tok);
    std::string text;
    for (const char c : r.bytes) {
      const std::string piece = d.push(static_cast<std::uint8_t>(c));
      CHECK(is_utf8(piece));
      text += piece;
    }
    text += d.finish();
    CHECK(text == r.text);
    CHECK(d.finish().empty());
  }
}

TEST_CASE("characters come out as soon as they are whole") {
  const auto tok = weir_tiny();
  detokenizer d(*tok);
  CHECK(d.push(0xF0).empty());
  CHECK(d.push(0x9F).empty());
  CHECK(d.push(0x98).empty());
  CHECK(d.push(0x80) == "😀");
  CHECK(d.push(2050) == "<|im_end|>");
  CHECK(d.push(99999).empty());
}

}  // namespace
}  // namespace weir::engine::text
