#include "loadtest/sequence_check.hpp"

#include <algorithm>
#include <charconv>

namespace weir::loadtest {

void sequence_check::take(std::string_view text) {
  constexpr std::string_view k_start = " tok";
  while (!text.empty()) {
    if (!text.starts_with(k_start)) {
      ++strange_;
      return;
    }
    text.remove_prefix(k_start.size());
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
    if (error != std::errc{}) {
      ++strange_;
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    text.remove_prefix(std::min(text.find_first_not_of('.'), text.size()));
    ++seen_;
    if (index < next_) ++reordered_;
    next_ = std::max(next_, index + 1);
  }
}

std::int64_t sequence_check::lost(std::int64_t expected) const {
  return std::max<std::int64_t>(std::max(expected, next_) - seen_, 0) + strange_;
}

}  // namespace weir::loadtest
