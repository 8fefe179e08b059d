#include "engine/kv/memory_pool.hpp"

#include <cassert>
#include <limits>

namespace weir::engine::kv {

namespace {

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

memory_pool::memory_pool(const pool_shape& shape) : shape_(shape), slabs_(at(shape.slab_count)) {
  assert(shape.slab_count >= 1 && shape.slab_pages >= 1);
  assert(total_pages() <= std::numeric_limits<std::int32_t>::max());
  free_slabs_.reserve(slabs_.size());
  for (std::int32_t index = shape.slab_count; index > 0; --index) free_slabs_.push_back(index - 1);
  places_.resize(static_cast<std::size_t>(total_pages()), -1);
}

std::optional<std::int32_t> memory_pool::acquire_state() {
  if (free_slabs_.empty()) return std::nullopt;
  const std::int32_t index = free_slabs_.back();
  free_slabs_.pop_back();
  slabs_[at(index)].use = slab_use::state;
  ++states_;
  return index;
}

void memory_pool::release_state(std::int32_t index) {
  assert(slabs_[at(index)].use == slab_use::state);
  slabs_[at(index)].use = slab_use::free;
  free_slabs_.push_back(index);
  --states_;
}

bool memory_pool::empty_slab(std::vector<memory_op>& ops) {
  if (partial_free_ < shape_.slab_pages) return false;
  const std::int32_t index = partial_.begin()->second;  // the fewest pages to move
  slab& from = slabs_[at(index)];
  const std::int32_t first = index * shape_.slab_pages;
  partial_.erase(partial_.begin());
  partial_free_ -= shape_.slab_pages - from.used;
  // The slab is out of partial_ and no slab is taken anew, so places come from the others.
  for (std::int32_t place = first; place < first + from.fresh; ++place) {
    const std::int32_t handle = places_[at(place)];
    const bool lives = handle >= 0 && at(handle) < pages_.size() && pages_[at(handle)].place == place;
    if (!lives) continue;
    const std::int32_t to = take_place();
    ops.push_back({memory_op::kind::copy_page, place, to});
    places_[at(to)] = handle;
    pages_[at(handle)].place = to;
  }
  from = {};
  free_slabs_.push_back(index);
  return true;
}

std::optional<std::int32_t> memory_pool::acquire_page() {
  if (free_pages() == 0) return std::nullopt;
  std::int32_t handle = static_cast<std::int32_t>(pages_.size());
  if (free_handles_.empty()) {
    pages_.emplace_back();
  } else {
    handle = free_handles_.back();
    free_handles_.pop_back();
  }
  const std::int32_t place = take_place();
  places_[at(place)] = handle;
  pages_[at(handle)] = {place, 1, 0};
  ++used_pages_;
  return handle;
}

void memory_pool::retain_page(std::int32_t handle, page_owner owner) {
  page& entry = pages_[at(handle)];
  assert(entry.place >= 0);
  if (owner == page_owner::cache) {
    ++entry.caches;
  } else if (++entry.sequences == 1) {
    --cached_pages_;
  }
}

void memory_pool::release_page(std::int32_t handle, page_owner owner) {
  page& entry = pages_[at(handle)];
  std::int32_t& references = owner == page_owner::cache ? entry.caches : entry.sequences;
  assert(entry.place >= 0 && references > 0);
  const bool was_cached = entry.sequences == 0;
  --references;
  if (entry.sequences == 0 && entry.caches == 0) {
    if (was_cached) --cached_pages_;
    give_place(entry.place);
    entry.place = -1;
    free_handles_.push_back(handle);
    --used_pages_;
  } else if (!was_cached && entry.sequences == 0) {
    ++cached_pages_;
  }
}

std::int32_t memory_pool::place(std::int32_t handle) const noexcept {
  assert(pages_[at(handle)].place >= 0);
  return pages_[at(handle)].place;
}

// From the fullest slab, so that emptier ones become free.
std::int32_t memory_pool::take_place() {
  std::int32_t index = -1;
  if (partial_.empty()) {
    index = free_slabs_.back();
    free_slabs_.pop_back();
    slabs_[at(index)] = {slab_use::pages, 0, 0, -1};
    partial_.emplace(0, index);
    partial_free_ += shape_.slab_pages;
  } else {
    index = partial_.rbegin()->second;
  }
  slab& from = slabs_[at(index)];
  std::int32_t place = from.first_free;
  if (place >= 0) {
    from.first_free = places_[at(place)];
  } else {
    place = index * shape_.slab_pages + from.fresh++;
  }
  set_used(index, from.used + 1);
  return place;
}

void memory_pool::give_place(std::int32_t place) {
  const std::int32_t index = place / shape_.slab_pages;
  slab& to = slabs_[at(index)];
  places_[at(place)] = to.first_free;
  to.first_free = place;
  set_used(index, to.used - 1);
  if (to.used > 0) return;
  partial_.erase({0, index});
  partial_free_ -= shape_.slab_pages;
  to = {};
  free_slabs_.push_back(index);
}

void memory_pool::set_used(std::int32_t index, std::int32_t used) {
  slab& which = slabs_[at(index)];
  partial_.erase({which.used, index});
  partial_free_ += which.used - used;
  which.used = used;
  if (used < shape_.slab_pages) partial_.emplace(used, index);
}

}  // namespace weir::engine::kv
