// Walking over JSON text that no parser took: strings and numbers as RFC 8259 has them. Pure; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace weir::gateway::api {

// Behind the string that begins at `at`.
inline std::size_t skip_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return text.size();
}

// How many stand at `at`.
inline std::size_t digits(std::string_view token, std::size_t at) {
  const std::size_t begin = at;
  while (at < token.size() && token[at] >= '0' && token[at] <= '9') ++at;
  return at - begin;
}

// RFC 8259 section 6.
inline bool is_number(std::string_view token) {
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

// The end of the number, or what else stands there, that begins at `at`.
inline std::size_t number_end(std::string_view text, std::size_t at) {
  return std::min(text.find_first_of(",]} \t\r\n", at), text.size());
}

}  // namespace weir::gateway::api
