#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "gateway/api/json.hpp"
#include "gateway/api/json_scan.hpp"

namespace weir::gateway::api {

namespace {

constexpr std::size_t k_escape_bytes = 6;  // backslash, u, four digits

bool is_beyond(std::string_view token) {
  const std::string text(token);
  if (token.find_first_of(".eE") != std::string_view::npos)
    return std::isinf(std::strtod(text.c_str(), nullptr));
  std::int64_t small = 0;
  std::uint64_t large = 0;
  const char* const end = token.data() + token.size();
  return std::from_chars(token.data(), end, small).ec != std::errc() &&
         std::from_chars(token.data(), end, large).ec != std::errc();
}

// The value of the escape of a code unit at `at`; nothing where there is none.
std::optional<std::uint32_t> escaped_unit(std::string_view text, std::size_t at) {
  if (text.size() < at + k_escape_bytes || text[at] != '\\' || text[at + 1] != 'u') return std::nullopt;
  std::uint32_t unit = 0;
  const char* const end = text.data() + at + k_escape_bytes;
  const auto [stop, ec] = std::from_chars(text.data() + at + 2, end, unit, 16);
  if (ec != std::errc() || stop != end) return std::nullopt;
  return unit;
}

bool is_half(std::optional<std::uint32_t> unit, bool first) {
  constexpr std::uint32_t k_first = 0xD800;
  constexpr std::uint32_t k_second = 0xDC00;
  constexpr std::uint32_t k_end = 0xE000;
  return unit && *unit >= (first ? k_first : k_second) && *unit < (first ? k_second : k_end);
}

// Where one half of a surrogate pair stands alone in the string from `at` to `end`.
std::optional<std::size_t> lone_half(std::string_view text, std::size_t at, std::size_t end) {
  while (at < end) {
    const auto unit = text[at] == '\\' ? escaped_unit(text, at) : std::nullopt;
    if (is_half(unit, true) && is_half(escaped_unit(text, at + k_escape_bytes), false)) {
      at += 2 * k_escape_bytes;
    } else if (is_half(unit, true) || is_half(unit, false)) {
      return at;
    } else {
      at += text[at] == '\\' ? 2 : 1;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string describe_json_fault(std::string_view text, simdjson::error_code what) {
  const bool number = what == simdjson::NUMBER_ERROR;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      const std::size_t end = skip_string(text, at);
      const auto half = what == simdjson::STRING_ERROR ? lone_half(text, at + 1, end) : std::nullopt;
      if (half) {
        return fmt::format("the body holds half of a surrogate pair, {}, at byte {}: no character of its own",
                           text.substr(*half, k_escape_bytes), *half);
      }
      at = end;
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      const std::size_t end = number_end(text, at);
      const std::string_view token = text.substr(at, end - at);
      if (number && is_number(token) && is_beyond(token)) {
        return fmt::format("the body holds a number beyond 64 bits, {}, at byte {}", excerpt(token), at);
      }
      at = end;
    } else {
      ++at;
    }
  }
  return fmt::format("the body is not valid JSON: {}", simdjson::error_message(what));
}

}  // namespace weir::gateway::api
