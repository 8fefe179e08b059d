#include "prefix_index/residency_index.hpp"

#include <array>
#include <cassert>

#include "prefix_index/residency_impl.hpp"

namespace weir::prefix_index {

namespace {

std::uint64_t event_word(entry_kind kind, replica_id replica, std::uint64_t epoch) {
  return epoch_field::set(with_confidence(who(kind, replica), confidence::confirmed), epoch);
}

bool has_epoch(std::uint64_t word, std::uint64_t epoch) {
  return word != 0 && epoch_field::get(word) == (epoch & k_epoch_mask);
}

// A hint from disk counts as no copy once the engine itself speaks.
bool is_counted(std::uint64_t word, std::uint64_t epoch) {
  return has_epoch(word, epoch) && confidence_of(word) != confidence::restored;
}

}  // namespace

chain_boundary boundary_of(std::span<const block_key> chain, std::uint32_t unit) {
  assert(unit < chain.size());
  return {.key = chain[unit],
          .unit = unit,
          .near = chain[unit - unit % k_near_units],
          .far = chain[unit - unit % k_far_units]};
}

void residency_index::impl::summarize(const chain_boundary& boundary) {
  residency_table::fresh_records fresh(table);
  const auto add = [&](const block_key& key, std::uint32_t unit, entry_kind kind, std::uint32_t bit) {
    auto at = table.open_or_create(key, unit, fresh);
    if (!at) return;
    const auto bits = summary_field::get(at.get(who(kind, 0)));
    at.put(summary_field::set(who(kind, 0), bits | std::uint64_t{1} << bit));
  };
  const auto unit = boundary.unit;
  add(boundary.near, unit - unit % k_near_units, entry_kind::near_summary, unit % k_near_units);
  add(boundary.far, unit - unit % k_far_units, entry_kind::far_summary, unit % k_far_units / k_near_units);
}

residency_index::residency_index(const index_options& options) : impl_(std::make_unique<impl>(options)) {}
residency_index::~residency_index() = default;

void residency_index::set_evidence(replica_id replica, evidence pages, evidence checkpoints) {
  assert(replica < k_replicas_max && pages != evidence::implied);
  auto& state = impl_->states[replica];
  state.pages.store(static_cast<std::uint8_t>(pages), std::memory_order_release);
  state.checkpoints.store(static_cast<std::uint8_t>(checkpoints), std::memory_order_release);
}

void residency_index::clear(replica_id replica) {
  assert(replica < k_replicas_max);
  auto& state = impl_->states[replica];
  state.epoch.fetch_add(1, std::memory_order_acq_rel);
  const auto last = state.last_stamp.load(std::memory_order_acquire);
  state.horizon.store(age_order(last, true, 0), std::memory_order_release);
  impl_->changes.tell({});
}

std::uint64_t residency_index::epoch(replica_id replica) const {
  return impl_->states[replica].epoch.load(std::memory_order_acquire);
}

std::size_t residency_index::pages_added(replica_id replica, std::span<const block_key> keys,
                                         std::uint32_t first_unit, kv_medium medium,
                                         std::span<record_id> ids) {
  assert(ids.empty() || ids.size() == keys.size());
  impl_->states[replica].has_spoken.store(true, std::memory_order_release);
  const auto epoch = impl_->states[replica].epoch.load(std::memory_order_acquire);
  const auto fresh = event_word(entry_kind::event_pages, replica, epoch);
  chain_ahead ahead(impl_->table, keys);
  std::size_t known = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ahead.at(i);
    const auto unit = first_unit + i;
    if (!ids.empty()) ids[i] = 0;
    if (unit >= k_chain_units_max) continue;
    auto at = ahead.open_or_create(i, static_cast<std::uint32_t>(unit));
    if (!at) continue;
    const auto old = at.get(fresh & k_who_mask);
    const bool counted = is_counted(old, epoch);
    known += counted ? 1 : 0;
    const auto word = counted ? old : fresh;
    const bool kept = at.put(doubt_field::set(with_copies(word, medium, copies_of(word, medium) + 1), 0));
    if (kept && !ids.empty()) ids[i] = at.id();
  }
  impl_->changes.tell(keys);
  return known;
}

std::size_t residency_index::copies(replica_id replica, record_id id) const {
  const auto epoch = impl_->states[replica].epoch.load(std::memory_order_acquire);
  auto at = impl_->table.open(id);
  const auto word = at ? at.get(who(entry_kind::event_pages, replica)) : 0;
  return has_epoch(word, epoch) ? copies_of(word) : 0;
}

std::size_t residency_index::pages_removed(replica_id replica, std::span<const record_id> ids,
                                           kv_medium medium) {
  const auto epoch = impl_->states[replica].epoch.load(std::memory_order_acquire);
  const auto self = who(entry_kind::event_pages, replica);
  const bool told = impl_->changes.is_on();
  std::vector<block_key> changed;
  std::size_t ended = 0;
  for (const auto id : ids) {
    auto at = impl_->table.open(id);
    const auto word = at ? at.get(self) : 0;
    if (!has_epoch(word, epoch)) {
      ++ended;
      continue;
    }
    const auto copies = copies_of(word, medium);
    if (copies == copies_max(medium)) continue;
    const auto left = with_copies(word, medium, copies == 0 ? 0 : copies - 1);
    if (has_copies(left)) {
      at.put(left);
    } else {
      at.erase(self);
      if (told) changed.push_back(at.key());
      ++ended;
    }
  }
  if (!changed.empty()) impl_->changes.tell(changed);
  return ended;
}

void residency_index::checkpoint_added(replica_id replica, const chain_boundary& boundary, kv_medium medium) {
  if (boundary.unit >= k_chain_units_max) return;
  impl_->states[replica].has_spoken.store(true, std::memory_order_release);
  const auto epoch = impl_->states[replica].epoch.load(std::memory_order_acquire);
  const auto word = event_word(entry_kind::event_checkpoint, replica, epoch);
  residency_table::fresh_records fresh(impl_->table);
  if (auto at = impl_->table.open_or_create(boundary.key, boundary.unit, fresh); at) {
    at.put(with_copies(word, medium, 1));
  }
  impl_->summarize(boundary);
  impl_->changes.tell(std::array{boundary.key, boundary.near, boundary.far});
}

void residency_index::checkpoint_removed(replica_id replica, const block_key& boundary) {
  if (auto at = impl_->table.open(boundary); at) at.erase(who(entry_kind::event_checkpoint, replica));
  impl_->changes.tell(std::span(&boundary, 1));
}

void residency_index::correct(replica_id replica, std::span<const block_key> chain,
                              std::uint32_t cached_units) {
  const auto epoch = impl_->states[replica].epoch.load(std::memory_order_acquire);
  const auto self = who(entry_kind::event_checkpoint, replica);
  std::vector<block_key> changed;
  const auto deeper = chain.subspan(std::min<std::size_t>(cached_units, chain.size()));
  chain_ahead ahead(impl_->table, deeper);
  for (std::size_t i = 0; i + 1 < deeper.size(); ++i) {
    ahead.at(i);
    auto at = impl_->table.open(deeper[i]);
    if (!at) break;  // nothing below was ever seen
    const auto word = at.get(self);
    if (!has_epoch(word, epoch)) continue;
    at.put(doubt_field::set(word, 1));
    changed.push_back(deeper[i]);
  }
  if (!changed.empty()) impl_->changes.tell(changed);
  if (cached_units == 0 || cached_units > chain.size()) return;
  const auto boundary = boundary_of(chain, cached_units - 1);
  bool added = false;
  if (auto at = impl_->table.open(boundary.key); at) {
    const auto old = at.get(self);
    if (has_epoch(old, epoch)) {
      at.put(doubt_field::set(old, 0));
    } else {
      const auto word = event_word(entry_kind::event_checkpoint, replica, epoch);
      added = at.put(with_copies(with_confidence(word, confidence::observed), kv_medium::device, 1));
    }
  }
  if (added) impl_->summarize(boundary);
  impl_->changes.tell(std::array{boundary.key, boundary.near, boundary.far});
}

block_key residency_index::key_of(record_id id) const {
  return impl_->table.key_of(id);
}

std::uint32_t residency_index::depth_of(record_id id) const {
  return impl_->table.depth_of(id);
}

index_stats residency_index::stats() const {
  return impl_->table.stats();
}

}  // namespace weir::prefix_index
