#include "engine/text/nfc.hpp"

#include <algorithm>

#include "engine/text/utf8.hpp"

namespace weir::engine::text {
namespace {

// Hangul syllables are arithmetic: leading consonant, vowel, trailing consonant or none.
constexpr char32_t k_syllable = 0xAC00, k_leading = 0x1100, k_vowel = 0x1161, k_trailing = 0x11A7;
constexpr char32_t k_leadings = 19, k_vowels = 21, k_trailings = 28;
constexpr char32_t k_syllables = k_leadings * k_vowels * k_trailings;

bool in(char32_t c, char32_t first, char32_t count) {
  return c >= first && c - first < count;
}

std::uint64_t pair_of(char32_t first, char32_t second) {
  return static_cast<std::uint64_t>(first) << 32 | second;
}

void append_utf8(char32_t c, std::string& out) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

}  // namespace

nfc_normalizer::nfc_normalizer() : plain_(k_code_point_max + 1, true) {
  const nfc_data data = nfc_tables();
  marks_.assign(data.marks.begin(), data.marks.end());
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    if ((marks_[i] & 0xFF) == 0) continue;
    for (char32_t c = marks_[i] >> 8; c < marks_[i + 1] >> 8; ++c) plain_[c] = false;
  }
  for (std::size_t i = 0; i < data.decompositions.size(); i += 2 + data.decompositions[i + 1]) {
    const auto parts = data.decompositions.subspan(i + 2, data.decompositions[i + 1]);
    decompositions_.emplace(data.decompositions[i], std::u32string(parts.begin(), parts.end()));
    plain_[data.decompositions[i]] = false;
  }
  for (std::size_t i = 0; i < data.compositions.size(); i += 3) {
    compositions_.emplace(pair_of(data.compositions[i], data.compositions[i + 1]), data.compositions[i + 2]);
    plain_[data.compositions[i + 2]] = true;  // may change in front of a mark, but a mark is never plain
  }
  for (std::size_t i = 1; i < data.compositions.size(); i += 3) plain_[data.compositions[i]] = false;
  for (char32_t i = 0; i < k_vowels; ++i) plain_[k_vowel + i] = false;
  for (char32_t i = 1; i < k_trailings; ++i) plain_[k_trailing + i] = false;
}

bool nfc_normalizer::is_plain(std::string_view text) const {
  for (std::size_t at = ascii_bytes(text); at < text.size();) {
    const utf8_step step = next_char(text.substr(at, 4));
    if (!plain_[step.code_point]) return false;
    at += step.size;
    at += ascii_bytes(text.substr(at));
  }
  return true;
}

std::string nfc_normalizer::normalized(std::string_view text) const {
  std::u32string chars;
  for (std::size_t at = 0; at < text.size();) {
    const utf8_step step = next_char(text.substr(at, 4));
    decompose(step.code_point, chars);
    at += step.size;
  }
  reorder(chars);
  compose(chars);
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : chars) append_utf8(c, out);
  return out;
}

void nfc_normalizer::decompose(char32_t c, std::u32string& out) const {
  if (in(c, k_syllable, k_syllables)) {
    const char32_t i = c - k_syllable;
    out.push_back(k_leading + i / (k_vowels * k_trailings));
    out.push_back(k_vowel + i / k_trailings % k_vowels);
    if (i % k_trailings != 0) out.push_back(k_trailing + i % k_trailings);
    return;
  }
  const auto found = c < 0x80 ? decompositions_.end() : decompositions_.find(c);
  found == decompositions_.end() ? out.push_back(c) : static_cast<void>(out += found->second);
}

std::uint8_t nfc_normalizer::order(char32_t c) const {
  if (plain_[c]) return 0;
  const auto behind = std::upper_bound(marks_.begin(), marks_.end(), c << 8 | 0xFF);
  return behind == marks_.begin() ? 0 : static_cast<std::uint8_t>(*(behind - 1) & 0xFF);
}

// Marks between two starters are sorted by their order, those of the same order staying as they were.
void nfc_normalizer::reorder(std::u32string& text) const {
  constexpr int k_code_point_bits = 21, k_place_bits = 32;
  std::vector<std::uint64_t> marks;  // order, place, code point
  for (std::size_t at = 0; at < text.size(); ++at) {
    marks.clear();
    std::size_t end = at;
    for (std::uint8_t o = 0; end < text.size() && (o = order(text[end])) != 0; ++end) {
      marks.push_back((static_cast<std::uint64_t>(o) << k_place_bits | marks.size()) << k_code_point_bits |
                      text[end]);
    }
    std::sort(marks.begin(), marks.end());
    for (const std::uint64_t mark : marks) {
      text[at++] = static_cast<char32_t>(mark & ((1U << k_code_point_bits) - 1));
    }
  }
}

char32_t nfc_normalizer::composed(char32_t first, char32_t second) const {
  if (in(first, k_leading, k_leadings) && in(second, k_vowel, k_vowels)) {
    return k_syllable + ((first - k_leading) * k_vowels + (second - k_vowel)) * k_trailings;
  }
  if (in(first, k_syllable, k_syllables) && (first - k_syllable) % k_trailings == 0 &&
      in(second, k_trailing + 1, k_trailings - 1)) {
    return first + (second - k_trailing);
  }
  const auto found = compositions_.find(pair_of(first, second));
  return found == compositions_.end() ? 0 : found->second;
}

// A character composes with the last starter unless one between them blocks it: a starter, or a mark of the
// same or a higher order.
void nfc_normalizer::compose(std::u32string& text) const {
  std::size_t kept = 0;
  std::size_t starter = std::u32string::npos;
  std::uint8_t last_order = 0;
  for (const char32_t c : text) {
    const std::uint8_t c_order = order(c);
    if (starter != std::u32string::npos) {
      const bool next_to_it = kept == starter + 1;
      const char32_t both = next_to_it || last_order < c_order ? composed(text[starter], c) : 0;
      if (both != 0 && (next_to_it || last_order != 0)) {
        text[starter] = both;
        continue;
      }
    }
    if (c_order == 0) starter = kept;
    last_order = c_order;
    text[kept++] = c;
  }
  text.resize(kept);
}

}  // namespace weir::engine::text
