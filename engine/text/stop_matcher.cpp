#include "engine/text/stop_matcher.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace weir::engine::text {

stop_matcher::stop_matcher(std::vector<std::string> stops) {
  for (auto& text : stops) {
    assert(!text.empty());
    pattern p{std::move(text), {}, 0};
    p.borders.resize(p.text.size());
    for (std::size_t i = 1, border = 0; i < p.text.size(); ++i) {
      while (border > 0 && p.text[i] != p.text[border]) border = p.borders[border - 1];
      if (p.text[i] == p.text[border]) ++border;
      p.borders[i] = border;
    }
    patterns_.push_back(std::move(p));
  }
}

std::string stop_matcher::push(std::string_view text) {
  if (stopped_) return {};
  const std::size_t scanned = held_.size();
  held_ += text;
  for (std::size_t i = scanned; i < held_.size(); ++i) {
    std::size_t longest = 0;
    for (auto& p : patterns_) {
      while (p.matched > 0 && held_[i] != p.text[p.matched]) p.matched = p.borders[p.matched - 1];
      if (held_[i] == p.text[p.matched]) ++p.matched;
      if (p.matched == p.text.size()) longest = std::max(longest, p.matched);
    }
    if (longest == 0) continue;
    stopped_ = true;
    return std::exchange(held_, {}).substr(0, i + 1 - longest);
  }
  std::size_t tail = 0;
  for (const auto& p : patterns_) tail = std::max(tail, p.matched);
  std::string shown = held_.substr(0, held_.size() - tail);
  held_.erase(0, shown.size());
  return shown;
}

std::string stop_matcher::finish() {
  for (auto& p : patterns_) p.matched = 0;
  return std::exchange(held_, {});
}

}  // namespace weir::engine::text
