#include "prefix_index/event_checkpoints.hpp"

#include <algorithm>

namespace weir::prefix_index {

namespace {

constexpr std::size_t k_map_node_bytes = sizeof(void*) * 4;

}  // namespace

bool event_checkpoints::stored(std::int32_t group, std::span<const engine_hash> hashes, kv_medium medium) {
  auto at = std::find(groups_.begin(), groups_.end(), group);
  if (at == groups_.end()) {
    if (groups_.size() == k_checkpoint_groups_max) return false;
    groups_.push_back(group);
    groups_changed_ = true;
    at = groups_.end() - 1;
  }
  const auto slot = static_cast<std::size_t>(at - groups_.begin());
  for (const auto hash : hashes) {
    if (checkpoints_.size() >= k_checkpoints_per_replica_max && !checkpoints_.contains(hash)) return false;
    auto& c = checkpoints_[hash];
    if (c.copies[slot] != 0xFF) ++c.copies[slot];
    c.medium = medium;
    touched_.push_back(hash);
  }
  return true;
}

bool event_checkpoints::removed(std::int32_t group, engine_hash hash) {
  const auto at = std::find(groups_.begin(), groups_.end(), group);
  const auto found = checkpoints_.find(hash);
  if (at == groups_.end() || found == checkpoints_.end()) return false;
  auto& c = found->second;
  auto& copies = c.copies[static_cast<std::size_t>(at - groups_.begin())];
  if (copies == 0) return false;
  if (--copies != 0) return true;
  if (c.placed) index_.checkpoint_removed(replica_, c.key);
  c.placed = false;
  if (c.copies == std::array<std::uint8_t, k_checkpoint_groups_max>{}) checkpoints_.erase(found);
  return true;
}

void event_checkpoints::pages_stored(std::span<const engine_hash> hashes) {
  if (checkpoints_.empty()) return;
  for (const auto hash : hashes) {
    if (checkpoints_.contains(hash)) touched_.push_back(hash);
  }
}

bool event_checkpoints::complete(const checkpoint& c) const {
  return std::all_of(c.copies.begin(), c.copies.begin() + static_cast<std::ptrdiff_t>(groups_.size()),
                     [](std::uint8_t copies) { return copies != 0; });
}

std::size_t event_checkpoints::settle(const engine_blocks* pages) {
  if (groups_changed_) {  // what fewer groups held is complete no more
    groups_changed_ = false;
    for (auto& [hash, c] : checkpoints_) {
      if (!c.placed || complete(c)) continue;
      index_.checkpoint_removed(replica_, c.key);
      c.placed = false;
    }
  }
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  std::size_t ambiguous = 0;
  for (const auto hash : touched_) {
    const auto found = checkpoints_.find(hash);
    if (found == checkpoints_.end() || !complete(found->second)) continue;
    const auto boundary = pages != nullptr ? pages->boundary(hash) : std::nullopt;
    if (!boundary) {
      ++ambiguous;
      continue;
    }
    auto& c = found->second;
    if (c.placed && c.key != boundary->key) index_.checkpoint_removed(replica_, c.key);
    index_.checkpoint_added(replica_, *boundary, c.medium);
    c.placed = true;
    c.key = boundary->key;
  }
  touched_.clear();
  return ambiguous;
}

void event_checkpoints::clear() {
  checkpoints_.clear();
  touched_.clear();
}

std::size_t event_checkpoints::bytes() const {
  return checkpoints_.size() * (sizeof(checkpoint) + k_map_node_bytes);
}

}  // namespace weir::prefix_index
