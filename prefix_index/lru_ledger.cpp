#include "prefix_index/lru_ledger.hpp"

#include <algorithm>
#include <cassert>

namespace weir::prefix_index {

namespace {

constexpr std::size_t k_compact_ranges_min = 64;
constexpr std::size_t k_set_node_bytes = 48;

}  // namespace

void lru_ledger::touch_pages(std::uint64_t stamp, std::span<const std::uint64_t> old_stamps) {
  if (old_stamps.empty()) return;
  std::uint64_t previous = 0;
  for (auto unit = old_stamps.size(); unit-- > 0;) {
    if (old_stamps[unit] == 0 || old_stamps[unit] == previous) continue;
    previous = old_stamps[unit];
    shorten(previous, static_cast<std::uint32_t>(unit + 1));
  }
  ranges_.push_back({.stamp = stamp, .first = 0, .end = static_cast<std::uint32_t>(old_stamps.size())});
  used_tokens_ += old_stamps.size() * costs_.page_tokens;
  drop_empty();
}

void lru_ledger::shorten(std::uint64_t stamp, std::uint32_t touched_units) {
  const auto at = std::lower_bound(ranges_.begin() + static_cast<std::ptrdiff_t>(head_), ranges_.end(), stamp,
                                   [](const range& r, std::uint64_t s) { return r.stamp < s; });
  if (at == ranges_.end() || at->stamp != stamp || at->first >= at->end) return;
  const auto first = std::min(std::max(at->first, touched_units), at->end);
  used_tokens_ -= (first - at->first) * costs_.page_tokens;
  at->first = first;
  empty_ += first == at->end;
}

void lru_ledger::put_checkpoint(std::uint64_t old_order, std::uint64_t new_order) {
  remove_checkpoint(old_order);
  if (checkpoints_.insert(new_order).second) used_tokens_ += costs_.checkpoint_tokens;
}

void lru_ledger::remove_checkpoint(std::uint64_t order) {
  if (order != 0 && checkpoints_.erase(order) != 0) used_tokens_ -= costs_.checkpoint_tokens;
}

std::uint64_t lru_ledger::evict() {
  std::uint64_t last = 0;
  while (used_tokens_ > costs_.capacity_tokens) {
    while (head_ < ranges_.size() && ranges_[head_].first == ranges_[head_].end) {
      ++head_;
      --empty_;
    }
    const bool has_pages = head_ < ranges_.size();
    if (!has_pages && checkpoints_.empty()) break;
    const bool pages_first =
        has_pages && (checkpoints_.empty() || ranges_[head_].stamp <= *checkpoints_.begin() >> 24);
    if (!pages_first) {
      last = *checkpoints_.begin();
      checkpoints_.erase(checkpoints_.begin());
      used_tokens_ -= costs_.checkpoint_tokens;
      continue;
    }
    auto& oldest = ranges_[head_];
    const auto over = used_tokens_ - costs_.capacity_tokens;
    const auto pages = std::min<std::uint64_t>((over + costs_.page_tokens - 1) / costs_.page_tokens,
                                               oldest.end - oldest.first);
    oldest.end -= static_cast<std::uint32_t>(pages);
    used_tokens_ -= pages * costs_.page_tokens;
    last = age_order(oldest.stamp, false, oldest.end);
    empty_ += oldest.first == oldest.end;
  }
  drop_empty();
  return last;
}

// Ranges whose pages were all touched later would gather between old and new ones.
void lru_ledger::drop_empty() {
  const auto live = ranges_.size() - head_;
  if (ranges_.size() < k_compact_ranges_min || (head_ < ranges_.size() / 2 && empty_ < live / 2)) return;
  ranges_.erase(ranges_.begin(), ranges_.begin() + static_cast<std::ptrdiff_t>(head_));
  std::erase_if(ranges_, [](const range& r) { return r.first == r.end; });
  head_ = 0;
  empty_ = 0;
}

void lru_ledger::clear() {
  ranges_.clear();
  checkpoints_.clear();
  head_ = empty_ = 0;
  used_tokens_ = 0;
}

void lru_ledger::restore_pages(std::uint64_t stamp, std::uint32_t first_unit, std::uint32_t end_unit) {
  assert(ranges_.empty() || ranges_.back().stamp < stamp);
  ranges_.push_back({.stamp = stamp, .first = first_unit, .end = end_unit});
  used_tokens_ += (end_unit - first_unit) * costs_.page_tokens;
}

std::size_t lru_ledger::bytes() const {
  return ranges_.capacity() * sizeof(range) + checkpoints_.size() * k_set_node_bytes;
}

}  // namespace weir::prefix_index
