#include <algorithm>

#include "engine/text/k3_markup.hpp"

namespace weir::engine::text {

namespace {

// The renderer escapes these two and nothing else.
std::string unescaped(std::string_view value) {
  constexpr std::string_view k_amp = "&amp;";
  constexpr std::string_view k_quot = "&quot;";
  std::string out;
  while (!value.empty()) {
    if (value.starts_with(k_amp)) {
      out.push_back('&');
      value.remove_prefix(k_amp.size());
    } else if (value.starts_with(k_quot)) {
      out.push_back('"');
      value.remove_prefix(k_quot.size());
    } else {
      out.push_back(value.front());
      value.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace

std::optional<k3_tag> parse_k3_tag(std::string_view text) {
  constexpr std::string_view k_equals = "=\"";
  k3_tag out;
  const std::size_t name_end = std::min(text.find(' '), text.size());
  out.name = text.substr(0, name_end);
  text.remove_prefix(name_end);
  while (!text.empty()) {
    const std::size_t equals = text.find(k_equals);
    if (text.front() != ' ' || equals == std::string_view::npos) return std::nullopt;
    const std::string_view key = text.substr(1, equals - 1);
    text.remove_prefix(equals + k_equals.size());
    const std::size_t quote = text.find('"');
    if (key.empty() || quote == std::string_view::npos) return std::nullopt;
    std::string value = unescaped(text.substr(0, quote));
    text.remove_prefix(quote + 1);
    if (key == "tool") out.tool = std::move(value);
    if (key == "key") out.key = std::move(value);
    if (key == "type") out.type = std::move(value);
  }
  return out;
}

}  // namespace weir::engine::text
