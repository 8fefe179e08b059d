#include "engine/text/unicode_classes.hpp"

#include <map>
#include <string>

#include "engine/text/utf8.hpp"

namespace weir::engine::text {

unicode_classes::unicode_classes() {
  const auto runs = unicode_class_runs();
  std::map<std::string, std::uint16_t> known;
  std::size_t run = 0;
  for (char32_t first = 0; first <= k_code_point_max; first += 256) {
    std::string block(256, '\0');
    for (char32_t i = 0; i < 256; ++i) {
      while (run + 1 < runs.size() && runs[run + 1] >> 8 <= first + i) ++run;
      block[i] = static_cast<char>(runs[run] & 0xFF);
    }
    const auto [place, added] = known.emplace(block, static_cast<std::uint16_t>(known.size()));
    if (added) blocks_.insert(blocks_.end(), block.begin(), block.end());
    block_index_[first >> 8] = place->second;
  }
}

}  // namespace weir::engine::text
