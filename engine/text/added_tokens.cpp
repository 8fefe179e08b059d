#include "engine/text/added_tokens.hpp"

#include <algorithm>

namespace weir::engine::text {

content_index::content_index(const std::vector<added_token>& tokens, bool specials_too) : tokens_(&tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].special && !specials_too) continue;
    by_content_.push_back(static_cast<std::uint32_t>(i));
    begins_[static_cast<std::uint8_t>(tokens[i].content[0])] = true;
    bytes_max_ = std::max(bytes_max_, tokens[i].content.size());
  }
  std::sort(by_content_.begin(), by_content_.end(),
            [&tokens](std::uint32_t a, std::uint32_t b) { return tokens[a].content < tokens[b].content; });
}

const added_token* content_index::longest_at(std::string_view text) const {
  if (text.empty() || !begins_[static_cast<std::uint8_t>(text[0])]) return nullptr;
  const added_token* found = nullptr;
  auto first = by_content_.begin();
  auto last = by_content_.end();
  for (std::size_t depth = 0; first != last; ++depth) {
    if ((*tokens_)[*first].content.size() == depth) found = &(*tokens_)[*first++];
    if (depth == text.size()) break;
    const auto byte_of = [&](std::uint32_t i) {
      return static_cast<std::uint8_t>((*tokens_)[i].content[depth]);
    };
    const auto byte = static_cast<std::uint8_t>(text[depth]);
    first = std::partition_point(first, last, [&](std::uint32_t i) { return byte_of(i) < byte; });
    last = std::partition_point(first, last, [&](std::uint32_t i) { return byte_of(i) == byte; });
  }
  return found;
}

std::size_t content_index::first_match(std::string_view text, const added_token*& found) const {
  found = nullptr;
  if (empty()) return text.size();
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!begins_[static_cast<std::uint8_t>(text[at])]) continue;
    found = longest_at(text.substr(at));
    if (found != nullptr) return at;
  }
  return text.size();
}

}  // namespace weir::engine::text
