#include <algorithm>
#include <cstring>

#include "gateway/api/json.hpp"

namespace weir::gateway::api {

namespace {

constexpr std::size_t k_safe_bytes = 15;           // shorter integers fit 64 bits
constexpr std::size_t k_safe_exponent_digits = 2;  // and such powers a double

std::size_t skip_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return text.size();
}

std::size_t digits(std::string_view token, std::size_t at) {
  const std::size_t begin = at;
  while (at < token.size() && token[at] >= '0' && token[at] <= '9') ++at;
  return at - begin;
}

// RFC 8259 section 6.
bool is_number(std::string_view token) {
  std::size_t at = token.starts_with('-') ? 1 : 0;
  const std::size_t whole = digits(token, at);
  if (whole == 0 || (whole > 1 && token[at] == '0')) return false;
  at += whole;
  if (at < token.size() && token[at] == '.') {
    const std::size_t fraction = digits(token, ++at);
    if (fraction == 0) return false;
    at += fraction;
  }
  if (at < token.size() && (token[at] == 'e' || token[at] == 'E')) {
    ++at;
    if (at < token.size() && (token[at] == '+' || token[at] == '-')) ++at;
    const std::size_t exponent = digits(token, at);
    if (exponent == 0) return false;
    at += exponent;
  }
  return at == token.size();
}

bool is_large(std::string_view token) {
  const std::size_t mark = token.find_first_of("eE");
  if (mark == std::string_view::npos) return token.size() > k_safe_bytes;
  const std::size_t sign = token.find_first_of("+-", mark) == mark + 1 ? 1 : 0;
  return mark > k_safe_bytes || token.size() - mark - 1 - sign > k_safe_exponent_digits;
}

}  // namespace

bool tame_numbers(std::string& text) {
  bool any = false;
  std::size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at);
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      const std::size_t end = std::min(text.find_first_of(",]} \t\r\n", at), text.size());
      const std::string_view token = std::string_view(text).substr(at, end - at);
      if (is_number(token) && is_large(token)) {
        any = true;
        text[at] = '0';
        std::fill(text.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                  text.begin() + static_cast<std::ptrdiff_t>(end), ' ');
      }
      at = end;
    } else {
      ++at;
    }
  }
  return any;
}

}  // namespace weir::gateway::api
