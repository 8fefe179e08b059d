#include "policy/comparison/overlap.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace weir::policy::comparison {

namespace {

constexpr unsigned char k_first_lone = 0xe2;  // lead byte of U+2000 and more

bool is_space(unsigned char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

bool is_word_byte(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c >= 0x80;
}

// The bytes of a character that is a word of its own at `at`; 0: it is part of a longer one, or white space.
std::size_t lone_bytes(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return is_space(lead) || is_word_byte(lead) ? 0 : 1;
  if (lead < k_first_lone) return 0;
  return std::min<std::size_t>(lead >= 0xf0 ? 4 : 3, text.size() - at);
}

std::vector<std::string_view> sorted_words(std::string_view text) {
  std::vector<std::string_view> out;
  std::size_t at = 0;
  while (at < text.size()) {
    if (is_space(static_cast<unsigned char>(text[at]))) {
      ++at;
      continue;
    }
    std::size_t end = at + lone_bytes(text, at);
    if (end == at) {
      ++end;
      while (end < text.size() && is_word_byte(static_cast<unsigned char>(text[end])) &&
             lone_bytes(text, end) == 0) {
        ++end;
      }
    }
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

double word_overlap(std::string_view a, std::string_view b) {
  const auto left = sorted_words(a);
  const auto right = sorted_words(b);
  if (left.empty() && right.empty()) return 1;
  std::size_t common = 0;
  for (std::size_t i = 0, j = 0; i < left.size() && j < right.size();) {
    if (left[i] == right[j]) {
      ++common;
      ++i;
      ++j;
    } else if (left[i] < right[j]) {
      ++i;
    } else {
      ++j;
    }
  }
  return 2 * static_cast<double>(common) / static_cast<double>(left.size() + right.size());
}

}  // namespace weir::policy::comparison
