#include "loadtest/truth/worth_cache.hpp"

#include <algorithm>
#include <limits>

namespace weir::loadtest::truth {

namespace {

constexpr double k_turn_weight = 0.1;
constexpr double k_grown_from = 0.05;
constexpr double k_bare_end = 0.3;

}  // namespace

cache_match worth_cache::match(std::span<const block_id> prompt) const {
  cache_match out;
  for (const block_id id : prompt) {
    const auto found = slots_.find(id);
    if (found == slots_.end()) break;
    ++out.pages;
    if (pages_[found->second].checkpoint) out.reusable = out.pages;
  }
  return out;
}

void worth_cache::note(block_id id, part what, bool stored) {
  if (changes_ != nullptr) changes_->push_back({.id = id, .what = what, .stored = stored});
}

worth_cache::slot worth_cache::add_page(block_id id, slot parent, std::uint32_t depth) {
  slot s = 0;
  if (free_.empty()) {
    s = static_cast<slot>(pages_.size());
    pages_.emplace_back();
  } else {
    s = free_.back();
    free_.pop_back();
  }
  pages_[s] = {.id = id, .parent = parent, .depth = depth, .held = true};
  if (parent != k_none) ++pages_[parent].children;
  slots_.emplace(id, s);
  used_tokens_ += rules_.page_tokens;
  note(id, part::page, true);
  return s;
}

void worth_cache::add_checkpoint(slot s, std::uint32_t resumed, double now_s) {
  auto& p = pages_[s];
  p.checkpoint_used_s = now_s;
  if (p.checkpoint) return;
  p.checkpoint = true;
  p.resumed = resumed;
  checkpoints_.push_back(s);
  used_tokens_ += rules_.checkpoint_tokens;
  note(p.id, part::checkpoint, true);
}

double worth_cache::fading(double since_s, double now_s) const {
  return 1 / (1 + (now_s - since_s) / rules_.ageing_s);
}

double worth_cache::worth(slot s, double now_s) const {
  const auto& p = pages_[s];
  std::int64_t own_pages = 0;
  bool only_its_own = p.children == 0;
  slot up = s;
  while (up != k_none && (up == s || !pages_[up].checkpoint)) {
    if (up != s && pages_[up].children > 1) only_its_own = false;
    if (only_its_own) ++own_pages;
    up = pages_[up].parent;
  }
  const std::int64_t before = up == k_none ? 0 : pages_[up].depth;
  const auto saved = static_cast<double>((p.depth - before) * rules_.page_tokens);
  const auto taken = static_cast<double>(rules_.checkpoint_tokens + own_pages * rules_.page_tokens);
  double chance = 1 + k_turn_weight * p.turns;
  if (p.children == 1) chance = k_grown_from;
  if (p.children > 1) chance = p.resumed;
  return chance * fading(p.checkpoint_used_s, now_s) * saved / taken;
}

void worth_cache::drop_tail(slot s) {
  while (s != k_none && pages_[s].held && pages_[s].children == 0 && !pages_[s].checkpoint) {
    auto& p = pages_[s];
    const slot parent = p.parent;
    note(p.id, part::page, false);
    slots_.erase(p.id);
    p.held = false;
    free_.push_back(s);
    used_tokens_ -= rules_.page_tokens;
    if (parent != k_none) --pages_[parent].children;
    s = parent;
  }
}

void worth_cache::drop_checkpoint(std::size_t index) {
  const slot s = checkpoints_[index];
  checkpoints_[index] = checkpoints_.back();
  checkpoints_.pop_back();
  pages_[s].checkpoint = false;
  used_tokens_ -= rules_.checkpoint_tokens;
  note(pages_[s].id, part::checkpoint, false);
  drop_tail(s);
}

void worth_cache::evict_one(double now_s) {
  double least = std::numeric_limits<double>::infinity();
  std::size_t index = 0;
  bool bare = false;
  for (std::size_t i = 0; i < checkpoints_.size(); ++i) {
    const double w = worth(checkpoints_[i], now_s);
    if (w < least) least = w, index = i;
  }
  std::erase_if(bare_ends_,
                [&](slot s) { return !pages_[s].held || pages_[s].children > 0 || pages_[s].checkpoint; });
  for (std::size_t i = 0; i < bare_ends_.size(); ++i) {
    const double w = k_bare_end * fading(pages_[bare_ends_[i]].used_s, now_s);
    if (w < least) least = w, index = i, bare = true;
  }
  if (bare) {
    drop_tail(bare_ends_[index]);
  } else {
    drop_checkpoint(index);
  }
}

void worth_cache::store(std::span<const block_id> prompt, const cache_match& match,
                        std::span<const std::size_t> hints, double now_s,
                        std::vector<cache_change>* changes) {
  if (prompt.empty()) return;
  changes_ = changes;
  std::vector<slot> chain(prompt.size());
  std::uint32_t turns = 0;
  slot parent = k_none;
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    const auto found = slots_.find(prompt[i]);
    const auto depth = static_cast<std::uint32_t>(i + 1);
    parent = found == slots_.end() ? add_page(prompt[i], parent, depth) : found->second;
    pages_[parent].used_s = now_s;
    chain[i] = parent;
  }
  if (match.reusable > 0) {
    auto& from = pages_[chain[match.reusable - 1]];
    ++from.resumed;
    from.checkpoint_used_s = now_s;
    turns = from.turns + 1;
  }
  for (const std::size_t at : hints) {
    if (at <= match.reusable || at > prompt.size()) continue;
    const bool is_end = at == prompt.size();
    // A junction is where a second prompt came by.
    add_checkpoint(chain[at - 1], is_end ? 1 : 2, now_s);
    if (is_end) pages_[chain[at - 1]].turns = turns;
  }
  const auto& end = pages_[chain.back()];
  if (!end.checkpoint && end.children == 0) bare_ends_.push_back(chain.back());
  while (used_tokens_ > rules_.capacity_tokens) evict_one(now_s);
  changes_ = nullptr;
}

}  // namespace weir::loadtest::truth
