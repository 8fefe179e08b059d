#include "engine/model/tensor_index.hpp"

#include <algorithm>
#include <cassert>

namespace weir::engine::model {

void tensor_index::reserve(std::size_t tensors, std::size_t name_bytes) {
  entries_.reserve(tensors);
  names_.reserve(name_bytes);
}

void tensor_index::add(std::string_view name, std::uint16_t shard) {
  assert(name.size() <= k_name_bytes_max && names_.size() + name.size() <= UINT32_MAX);
  entries_.push_back({0, static_cast<std::uint32_t>(names_.size()), k_unplaced,
                      static_cast<std::uint16_t>(name.size()), shard});
  names_ += name;
}

std::optional<std::string> tensor_index::seal() {
  const auto before = [this](const entry& a, const entry& b) { return name_of(a) < name_of(b); };
  const auto same = [this](const entry& a, const entry& b) { return name_of(a) == name_of(b); };
  std::sort(entries_.begin(), entries_.end(), before);
  const auto twice = std::adjacent_find(entries_.begin(), entries_.end(), same);
  if (twice == entries_.end()) return std::nullopt;
  return std::string(name_of(*twice));
}

const tensor_index::entry* tensor_index::locate(std::string_view name) const {
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [this](const entry& e, std::string_view wanted) { return name_of(e) < wanted; });
  return at == entries_.end() || name_of(*at) != name ? nullptr : &*at;
}

void tensor_index::put(std::string_view name, std::uint16_t shard, const tensor_view& view,
                       std::uint64_t offset) {
  const entry* found = locate(name);
  if (found == nullptr || found->shard != shard) return;
  const auto next = static_cast<std::uint32_t>(kinds_.size());
  const auto [known, added] = kind_ids_.emplace(kind_key(view.dtype, view.shape), next);
  if (added) kinds_.push_back({view.dtype, view.shape, view.data.size()});
  entry& target = entries_[static_cast<std::size_t>(found - entries_.data())];
  target.offset = offset;
  target.kind = known->second;
}

std::optional<std::string> tensor_index::first_unplaced() const {
  const auto at =
      std::find_if(entries_.begin(), entries_.end(), [](const entry& e) { return e.kind == k_unplaced; });
  if (at == entries_.end()) return std::nullopt;
  return std::string(name_of(*at));
}

std::optional<tensor_index::place> tensor_index::find(std::string_view name) const {
  const entry* found = locate(name);
  if (found == nullptr || found->kind == k_unplaced) return std::nullopt;
  const kind& what = kinds_[found->kind];
  return place{found->shard, found->offset, what.bytes, what.dtype, what.shape};
}

}  // namespace weir::engine::model
