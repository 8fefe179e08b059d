#include "engine/text/unicode_classes.hpp"

#include <map>
#include <string>

#include "engine/text/utf8.hpp"

namespace weir::engine::text {

namespace {

// Of Han without case only marks are neither letter, number nor punctuation.
std::uint8_t as_others(std::uint8_t flags) {
  if ((flags & k_han) == 0) return flags;
  const bool letter_or_mark = (flags & k_letter) != 0 || (flags & (k_number | k_punctuation)) == 0;
  return static_cast<std::uint8_t>((flags & ~k_han) | (letter_or_mark ? k_upper | k_lower : 0));
}

}  // namespace

unicode_classes::unicode_classes(han treatment) {
  const auto runs = unicode_class_runs();
  std::map<std::string, std::uint16_t> known;
  std::size_t run = 0;
  for (char32_t first = 0; first <= k_code_point_max; first += 256) {
    std::string block(256, '\0');
    for (char32_t i = 0; i < 256; ++i) {
      while (run + 1 < runs.size() && runs[run + 1] >> 8 <= first + i) ++run;
      const auto flags = static_cast<std::uint8_t>(runs[run] & 0xFF);
      block[i] = static_cast<char>(treatment == han::apart ? flags : as_others(flags));
    }
    const auto [place, added] = known.emplace(block, static_cast<std::uint16_t>(known.size()));
    if (added) blocks_.insert(blocks_.end(), block.begin(), block.end());
    block_index_[first >> 8] = place->second;
  }
}

}  // namespace weir::engine::text
