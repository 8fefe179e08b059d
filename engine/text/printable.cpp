#include "engine/text/printable.hpp"

#include <algorithm>

#include "engine/text/utf8.hpp"

namespace weir::engine::text {

namespace {

constexpr bool is_control(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069);
}

bool is_plain(char c) {
  return c >= 0x20 && c < 0x7F;
}

utf8_step step_at(std::string_view text, std::size_t at, bool& good) {
  const auto step = next_char(text.substr(at));
  good = step.status == utf8_status::valid && !is_control(step.code_point);
  return step;
}

}  // namespace

bool is_printable(std::string_view text) noexcept {
  const auto first = std::find_if_not(text.begin(), text.end(), is_plain);
  for (auto at = static_cast<std::size_t>(first - text.begin()); at < text.size();) {
    bool good = false;
    at += step_at(text, at, good).size;
    if (!good) return false;
  }
  return true;
}

std::string printable(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max && is_printable(text)) return std::string(text);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    bool good = false;
    const auto size = step_at(text, at, good).size;
    const auto piece = good ? text.substr(at, size) : k_replacement;
    if (out.size() + piece.size() > bytes_max) break;
    out += piece;
    at += size;
  }
  return out;
}

}  // namespace weir::engine::text
