#include "prefix_index/hash_slots.hpp"

#include <cassert>
#include <utility>

namespace weir::prefix_index {

namespace {

constexpr std::size_t k_growth_part = 5;  // by a fifth at once: fuller than by more, but more is moved

}  // namespace

std::uint64_t hash_slots::mixed(engine_hash hash) const {
  auto x = hash ^ seed_;
  x = (x ^ x >> 32) * 0xD6E8FEB86659FD93;
  x = (x ^ x >> 32) * 0xD6E8FEB86659FD93;
  return x ^ x >> 32;
}

hash_slots::slot hash_slots::make(std::uint64_t mixed_hash, std::uint32_t value) {
  slot s;
  for (std::size_t i = 0; i < 3; ++i) s.halves[i] = static_cast<std::uint16_t>(mixed_hash >> (16 * i));
  s.halves[3] = static_cast<std::uint16_t>(value);
  s.halves[4] = static_cast<std::uint16_t>(value >> 16);
  return s;
}

// Where the hash is, or the free slot that ends its run. REQUIRES: a free slot exists.
std::size_t hash_slots::locate(const slot& wanted) const {
  auto at = home(wanted);
  while (slots_[at].value() != 0 &&
         (slots_[at].place() != wanted.place() || slots_[at].halves[2] != wanted.halves[2])) {
    if (++at == slots_.size()) at = 0;
  }
  return at;
}

std::uint32_t hash_slots::find(engine_hash hash) const {
  return slots_.empty() ? 0 : slots_[locate(make(mixed(hash), 0))].value();
}

void hash_slots::insert(engine_hash hash, std::uint32_t value) {
  assert(value != 0);
  if ((count_ + 1) * 20 > slots_.size() * 17) grow();
  const auto wanted = make(mixed(hash), value);
  auto& place = slots_[locate(wanted)];
  count_ += place.value() == 0;
  place = wanted;
}

// Closes the gap by moving later slots of the run back, so that no tombstones gather.
void hash_slots::erase(engine_hash hash) {
  if (slots_.empty()) return;
  auto gap = locate(make(mixed(hash), 0));
  if (slots_[gap].value() == 0) return;
  --count_;
  const auto size = slots_.size();
  for (auto at = gap;;) {
    if (++at == size) at = 0;
    if (slots_[at].value() == 0) break;
    const auto from_home = (at + size - home(slots_[at])) % size;
    const auto from_gap = (at + size - gap) % size;
    if (from_home < from_gap) continue;  // it would land before its home
    slots_[gap] = slots_[at];
    gap = at;
  }
  slots_[gap] = {};
}

void hash_slots::clear() {
  slots_ = {};
  memory_ = {};
  count_ = 0;
}

void hash_slots::grow() {
  const auto old = slots_;
  page_buffer larger((old.size() + old.size() / k_growth_part + 1) * sizeof(slot));
  slots_ = {static_cast<slot*>(larger.data()), larger.bytes() / sizeof(slot)};
  for (const auto& s : old) {
    if (s.value() != 0) slots_[locate(s)] = s;
  }
  memory_ = std::move(larger);
}

}  // namespace weir::prefix_index
