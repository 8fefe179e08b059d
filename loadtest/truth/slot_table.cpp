#include "loadtest/truth/slot_table.hpp"

#include <cassert>
#include <utility>

namespace weir::loadtest::truth {

namespace {

constexpr std::size_t k_cells_min = 1 << 10;

}  // namespace

std::size_t slot_table::home(block_id id, part what) const noexcept {
  auto x = id + (what == part::checkpoint ? 0x9e3779b97f4a7c15 : 0);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return (x ^ (x >> 31)) & (cells_.size() - 1);
}

std::size_t slot_table::locate(block_id id, part what) const noexcept {
  auto at = home(id, what);
  while (cells_[at].slot != k_none && (cells_[at].id != id || cells_[at].what != what))
    at = (at + 1) & (cells_.size() - 1);
  return at;
}

std::uint32_t slot_table::find(block_id id, part what) const noexcept {
  return cells_[locate(id, what)].slot;
}

void slot_table::insert(block_id id, part what, std::uint32_t slot) {
  if (2 * (size_ + 1) > cells_.size()) grow();
  auto& free = cells_[locate(id, what)];
  assert(free.slot == k_none && slot != k_none);
  free = {id, slot, what};
  ++size_;
}

// Cells behind the hole move up where their probes would otherwise end at it.
void slot_table::erase(block_id id, part what) noexcept {
  const auto mask = cells_.size() - 1;
  auto hole = locate(id, what);
  assert(cells_[hole].slot != k_none);
  for (auto at = (hole + 1) & mask; cells_[at].slot != k_none; at = (at + 1) & mask) {
    const auto wanted = home(cells_[at].id, cells_[at].what);
    if (((at - wanted) & mask) < ((at - hole) & mask)) continue;
    cells_[hole] = cells_[at];
    hole = at;
  }
  cells_[hole].slot = k_none;
  --size_;
}

void slot_table::clear() {
  cells_.assign(k_cells_min, cell{});
  size_ = 0;
}

void slot_table::grow() {
  const auto old = std::exchange(cells_, std::vector<cell>(2 * cells_.size()));
  for (const auto& one : old)
    if (one.slot != k_none) cells_[locate(one.id, one.what)] = one;
}

}  // namespace weir::loadtest::truth
