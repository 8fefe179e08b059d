#include "gateway/shadow/field_path.hpp"

#include <algorithm>
#include <iterator>

namespace weir::gateway::shadow {

namespace {

// Without these there is nothing to ask.
constexpr std::string_view k_needed[] = {"model", "messages", "prompt", "stream", "stream_options"};

constexpr std::string_view k_element = "[]";

}  // namespace

std::expected<field_path, std::string> parse_path(std::string_view text) {
  if (text.size() > k_path_bytes_max) return std::unexpected("is too long for a field's path");
  field_path out;
  std::string_view left = text;
  while (true) {
    const auto end = std::min(left.find('.'), left.size());
    auto name = left.substr(0, end);
    std::size_t elements = 0;
    while (name.ends_with(k_element)) {
      name.remove_suffix(k_element.size());
      ++elements;
    }
    if (name.empty() || name.find_first_of("[]\"\\") != name.npos) {
      return std::unexpected("is not a field's path, as user or messages[].name");
    }
    out.push_back({std::string(name)});
    out.resize(out.size() + elements);
    if (out.size() > k_path_steps_max) return std::unexpected("is too deep for a field's path");
    if (end == left.size()) break;
    left.remove_prefix(end + 1);
  }
  if (out.back().is_element()) return std::unexpected("names a list's elements; name a field of them");
  const bool needed =
      std::find(std::begin(k_needed), std::end(k_needed), out.front().name) != std::end(k_needed);
  if (needed && out.size() == 1) return std::unexpected("is what a request cannot do without");
  return out;
}

}  // namespace weir::gateway::shadow
