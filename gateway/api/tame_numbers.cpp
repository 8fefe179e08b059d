#include <algorithm>
#include <cstdint>
#include <optional>

#include "gateway/api/json.hpp"
#include "gateway/api/json_scan.hpp"

namespace weir::gateway::api {

namespace {

constexpr std::int64_t k_whole_power_max = 18;    // smaller integers fit 64 bits
constexpr std::int64_t k_double_power_max = 308;  // smaller numbers fit a double
constexpr std::int64_t k_exponent_max = 1'000'000'000'000;
constexpr std::string_view k_large = "9e99";  // no longer than what it stands for

// The power of ten of the first digit that counts; nothing for a zero.
std::optional<std::int64_t> magnitude(std::string_view token) {
  if (token.starts_with('-')) token.remove_prefix(1);
  const std::size_t whole = digits(token, 0);
  const std::size_t mark = std::min(token.find_first_of("eE"), token.size());
  std::int64_t exponent = 0;
  for (std::size_t at = mark; at < token.size(); ++at) {
    const bool is_digit = token[at] >= '0' && token[at] <= '9';
    if (is_digit) exponent = std::min(10 * exponent + (token[at] - '0'), k_exponent_max);
  }
  if (token.substr(mark).starts_with("e-") || token.substr(mark).starts_with("E-")) exponent = -exponent;
  const std::size_t first = token.substr(0, mark).find_first_of("123456789");
  if (first == std::string_view::npos) return std::nullopt;
  const auto place = static_cast<std::int64_t>(first);
  const auto point = static_cast<std::int64_t>(whole);
  return exponent + (first < whole ? point - 1 - place : point - place);
}

bool is_large(std::string_view token) {
  const auto power = magnitude(token);
  const bool is_whole = token.find_first_of(".eE") == std::string_view::npos;
  return power && *power >= (is_whole ? k_whole_power_max : k_double_power_max);
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
      const std::size_t end = number_end(text, at);
      const std::string_view token = std::string_view(text).substr(at, end - at);
      if (is_number(token) && is_large(token)) {
        any = true;
        const std::size_t begin = at + (c == '-' ? 1 : 0);
        std::fill(text.begin() + static_cast<std::ptrdiff_t>(begin),
                  text.begin() + static_cast<std::ptrdiff_t>(end), ' ');
        text.replace(begin, k_large.size(), k_large);
      }
      at = end;
    } else {
      ++at;
    }
  }
  return any;
}

}  // namespace weir::gateway::api
