#include "loadtest/truth/replica_cache.hpp"

#include <algorithm>
#include <cassert>

namespace weir::loadtest::truth {

namespace {

constexpr auto k_none = slot_table::k_none;
constexpr std::size_t k_stale_candidates_max = 1 << 12;  // and as many as there are entries

constexpr auto k_later = [](const auto& a, const auto& b) {
  return a.priority != b.priority ? a.priority > b.priority : a.tick > b.tick;
};

}  // namespace

cache_match replica_cache::match(std::span<const block_id> prompt) const noexcept {
  cache_match found;
  while (found.pages < prompt.size() && holds(prompt[found.pages], part::page)) ++found.pages;
  found.reusable = found.pages;
  if (rules_.dense) return found;
  while (found.reusable > 0 && !holds(prompt[found.reusable - 1], part::checkpoint)) --found.reusable;
  return found;
}

void replica_cache::store(std::span<const block_id> prompt, const cache_match& match,
                          std::span<const std::size_t> hints, std::vector<cache_change>* changes) {
  assert(match.reusable <= match.pages && match.pages <= prompt.size());
  changes_ = changes;
  for (auto at = prompt.size(); at > 0; --at) put(prompt[at - 1], part::page, rules_.page_tokens);
  if (!rules_.dense) {
    if (rules_.eviction == eviction_order::value) {
      store_by_value(prompt, match, hints);
    } else {
      store_lru(prompt, match, hints);
    }
  }
  changes_ = nullptr;
}

void replica_cache::store_lru(std::span<const block_id> prompt, const cache_match& match,
                              std::span<const std::size_t> hints) {
  put_intervals(prompt, match.reusable);
  if (rules_.prompt_end && !prompt.empty()) put_checkpoint(prompt, prompt.size());
  if (rules_.second_sighting && match.pages > match.reusable && match.pages < prompt.size())
    put_checkpoint(prompt, match.pages);
  for (const auto hint : hints)
    if (hint > match.reusable && hint <= prompt.size()) put_checkpoint(prompt, hint);
  if (match.reusable == 0) return;
  const auto resumed = table_.find(prompt[match.reusable - 1], part::checkpoint);
  if (resumed != k_none) touch(resumed, 0, false);
}

void replica_cache::store_by_value(std::span<const block_id> prompt, const cache_match& match,
                                   std::span<const std::size_t> hints) {
  if (match.reusable > 0) put_checkpoint(prompt, match.reusable);
  if (hints.empty() && rules_.second_sighting && match.pages > match.reusable)
    put_checkpoint(prompt, match.pages);
  for (const auto hint : hints)
    if (hint > match.reusable && hint <= prompt.size()) put_checkpoint(prompt, hint);
  put_intervals(prompt, match.reusable);
  if (rules_.prompt_end && !prompt.empty()) put_checkpoint(prompt, prompt.size());
}

void replica_cache::put_intervals(std::span<const block_id> prompt, std::size_t behind) {
  if (rules_.interval_pages <= 0) return;
  const auto step = static_cast<std::size_t>(rules_.interval_pages);
  for (auto at = (behind / step + 1) * step; at <= prompt.size(); at += step) put_checkpoint(prompt, at);
}

void replica_cache::put_checkpoint(std::span<const block_id> prompt, std::size_t boundary) {
  put(prompt[boundary - 1], part::checkpoint, static_cast<std::int64_t>(boundary) * rules_.page_tokens);
}

void replica_cache::put(block_id id, part what, std::int64_t saved_tokens) {
  const auto held = table_.find(id, what);
  if (held != k_none) {
    touch(held, saved_tokens, false);
  } else {
    const auto slot = take_slot(id, what);
    table_.insert(id, what, slot);
    used_tokens_ += cost(what);
    if (changes_ != nullptr) changes_->push_back({id, what, true});
    touch(slot, saved_tokens, true);
  }
  while (used_tokens_ > rules_.capacity_tokens) evict_one();
}

void replica_cache::touch(std::uint32_t slot, std::int64_t saved_tokens, bool is_new) {
  if (rules_.eviction == eviction_order::lru) {
    if (!is_new) unlink(slot);
    link_newest(slot);
    return;
  }
  auto& one = entries_[slot];
  ++one.frequency;
  one.tick = ++ticks_;
  one.saved_tokens = std::max(one.saved_tokens, static_cast<double>(saved_tokens));
  one.priority =
      clock_ + static_cast<double>(one.frequency) * one.saved_tokens / static_cast<double>(cost(one.what));
  heap_.push_back({one.priority, one.tick, slot});
  std::push_heap(heap_.begin(), heap_.end(), k_later);
  if (heap_.size() > 2 * table_.size() + k_stale_candidates_max) drop_stale_candidates();
}

std::uint32_t replica_cache::take_slot(block_id id, part what) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(entries_.size()));
    entries_.emplace_back();
  }
  const auto slot = free_.back();
  free_.pop_back();
  entries_[slot] = {};
  entries_[slot].id = id;
  entries_[slot].what = what;
  return slot;
}

void replica_cache::evict_one() {
  evict(rules_.eviction == eviction_order::lru ? oldest_ : least_valuable());
}

std::uint32_t replica_cache::least_valuable() {
  for (;;) {
    assert(!heap_.empty());
    std::pop_heap(heap_.begin(), heap_.end(), k_later);
    const auto lowest = heap_.back();
    heap_.pop_back();
    if (entries_[lowest.slot].tick != lowest.tick) continue;
    clock_ = lowest.priority;
    return lowest.slot;
  }
}

void replica_cache::evict(std::uint32_t slot) {
  auto& one = entries_[slot];
  if (rules_.eviction == eviction_order::lru) unlink(slot);
  used_tokens_ -= cost(one.what);
  if (changes_ != nullptr) changes_->push_back({one.id, one.what, false});
  table_.erase(one.id, one.what);
  one.tick = 0;
  free_.push_back(slot);
}

void replica_cache::link_newest(std::uint32_t slot) {
  auto& one = entries_[slot];
  one.older = newest_;
  one.newer = k_none;
  (newest_ == k_none ? oldest_ : entries_[newest_].newer) = slot;
  newest_ = slot;
}

void replica_cache::unlink(std::uint32_t slot) {
  const auto& one = entries_[slot];
  (one.older == k_none ? oldest_ : entries_[one.older].newer) = one.newer;
  (one.newer == k_none ? newest_ : entries_[one.newer].older) = one.older;
}

void replica_cache::drop_stale_candidates() {
  std::erase_if(heap_, [this](const candidate& one) { return entries_[one.slot].tick != one.tick; });
  std::make_heap(heap_.begin(), heap_.end(), k_later);
}

void replica_cache::clear() {
  table_.clear();
  entries_.clear();
  free_.clear();
  heap_.clear();
  oldest_ = newest_ = k_none;
  clock_ = 0;
  used_tokens_ = 0;
}

}  // namespace weir::loadtest::truth
