#include "engine/kv/index_pool.hpp"

#include <cassert>

namespace weir::engine::kv {

index_pool::index_pool(std::int32_t count) : references_(static_cast<std::size_t>(count), 0) {
  free_.reserve(references_.size());
  for (std::int32_t index = count; index > 0; --index) free_.push_back(index - 1);
}

std::int32_t index_pool::acquire() {
  assert(!free_.empty());
  const std::int32_t index = free_.back();
  free_.pop_back();
  references_[static_cast<std::size_t>(index)] = 1;
  return index;
}

void index_pool::retain(std::int32_t index) {
  std::int32_t& references = references_[static_cast<std::size_t>(index)];
  assert(references > 0);
  ++references;
}

void index_pool::release(std::int32_t index) {
  std::int32_t& references = references_[static_cast<std::size_t>(index)];
  assert(references > 0);
  if (--references == 0) free_.push_back(index);
}

}  // namespace weir::engine::kv
