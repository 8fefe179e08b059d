// One step of UTF-8 decoding with the Unicode Standard's "maximal subpart" rule, the one that WHATWG decoders
// follow. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace weir::engine::text {

inline constexpr std::string_view k_replacement = "\xEF\xBF\xBD";  // U+FFFD
inline constexpr char32_t k_code_point_max = 0x10FFFF;

enum class utf8_status : std::uint8_t {
  valid,       // `size` bytes form `code_point`
  invalid,     // `size` bytes, at least 1, can never begin a character together with what follows them
  incomplete,  // all bytes that are there are a proper prefix of a character
};

struct utf8_step {
  char32_t code_point = 0;
  std::uint8_t size = 0;  // bytes
  utf8_status status = utf8_status::invalid;
};

// REQUIRES: bytes is not empty.
inline utf8_step next_char(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  const std::uint8_t lead = at(0);
  if (lead < 0x80) return {lead, 1, utf8_status::valid};
  if (lead < 0xC2 || lead > 0xF4) return {0, 1, utf8_status::invalid};
  const std::uint8_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and code points past U+10FFFF.
  std::uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  std::uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t code_point = lead & (0xFFU >> (size + 1));
  for (std::uint8_t i = 1; i < size; ++i) {
    if (i == bytes.size()) return {0, i, utf8_status::incomplete};
    if (at(i) < low || at(i) > high) return {0, i, utf8_status::invalid};
    code_point = (code_point << 6) | (at(i) & 0x3FU);
    low = 0x80;
    high = 0xBF;
  }
  return {code_point, size, utf8_status::valid};
}

// How many bytes of `text` are ASCII from its beginning on.
inline std::size_t ascii_bytes(std::string_view text) {
  constexpr std::uint64_t k_high_bits = 0x8080808080808080ULL;
  std::size_t at = 0;
  for (std::uint64_t word = 0; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((word & k_high_bits) != 0) break;
  }
  while (at < text.size() && static_cast<std::uint8_t>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace weir::engine::text
