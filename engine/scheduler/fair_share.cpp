#include "engine/scheduler/fair_share.hpp"

#include <algorithm>
#include <cassert>

namespace weir::engine::scheduler {

void fair_share::add(std::int32_t tenant) {
  round_.insert(round_.begin() + static_cast<std::ptrdiff_t>(cursor_), {tenant, 0});
  if (round_.size() > 1) ++cursor_;
}

void fair_share::remove(std::int32_t tenant) {
  const auto it = std::ranges::find(round_, tenant, &entry::tenant);
  assert(it != round_.end());
  const auto index = static_cast<std::size_t>(it - round_.begin());
  round_.erase(it);
  if (index < cursor_) --cursor_;
  if (cursor_ >= round_.size()) cursor_ = 0;
}

void fair_share::charge(std::int32_t tenant, std::int64_t amount) {
  const auto it = std::ranges::find(round_, tenant, &entry::tenant);
  assert(it != round_.end());
  it->credit -= amount;
}

}  // namespace weir::engine::scheduler
