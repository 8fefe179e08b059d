#include "prefix_index/replica_model.hpp"

#include <cassert>
#include <functional>
#include <mutex>

#include "prefix_index/lru_ledger.hpp"
#include "prefix_index/replica_model_impl.hpp"

namespace weir::prefix_index {

replica_model::impl::impl(residency_index::impl& i, replica_id r, const replica_model_options& o)
    : index(i),
      replica(r),
      options(o),
      ledger({.capacity_tokens = o.capacity_tokens,
              .page_tokens = o.unit_tokens,
              .checkpoint_tokens = o.checkpoint_tokens}),
      epoch(i.states[r].epoch.load(std::memory_order_acquire)) {}

// Somebody cleared the replica in the index: its horizon is there already.
void replica_model::impl::follow_clear() {
  const auto now = index.states[replica].epoch.load(std::memory_order_acquire);
  if (now == epoch) return;
  epoch = now;
  ledger.clear();
}

std::uint64_t replica_model::impl::next_stamp() {
  auto& last = index.states[replica].last_stamp;
  const auto stamp = last.load(std::memory_order_relaxed) + 1;
  last.store(stamp, std::memory_order_release);
  return stamp;
}

void replica_model::impl::raise_horizon() {
  auto& horizon = index.states[replica].horizon;
  const auto order = ledger.evict();
  if (order > horizon.load(std::memory_order_relaxed)) horizon.store(order, std::memory_order_release);
}

std::uint32_t replica_model::impl::whole_pages(std::uint32_t units) const noexcept {
  const std::uint64_t unit = options.unit_tokens;
  const std::uint64_t page = options.page_tokens;
  if (page <= unit) return units;
  const auto tokens = units * unit / page * page;
  return static_cast<std::uint32_t>((tokens + unit - 1) / unit);
}

std::span<const block_key> replica_model::impl::kept(std::span<const block_key> chain) const noexcept {
  return chain.first(whole_pages(static_cast<std::uint32_t>(std::min(chain.size(), k_chain_units_max))));
}

std::uint64_t replica_model::impl::live_order(std::uint64_t word, std::uint32_t unit) const {
  return word != 0 && is_live(word, unit, index.states) ? age_order_of(word, unit) : 0;
}

dispatch_result replica_model::impl::touch_pages(std::uint64_t stamp, std::span<const block_key> chain) {
  const auto pages =
      with_confidence(stamp_field::set(who(entry_kind::model_pages, replica), stamp), confidence::predicted);
  const auto checkpoint = who(entry_kind::model_checkpoint, replica);
  const bool dense = options.keeps == retention::dense;
  old_stamps.assign(chain.size(), 0);
  checkpoint_orders.assign(chain.size(), 0);
  chain_ahead ahead(index.table, chain);
  for (std::uint32_t unit = 0; unit < chain.size(); ++unit) {
    ahead.at(unit);
    auto at = ahead.open_or_create(unit, unit);
    if (!at) continue;
    if (!dense) checkpoint_orders[unit] = live_order(at.get(checkpoint), unit);
    old_stamps[unit] = live_order(at.exchange(pages), unit) >> 24;
  }
  dispatch_result held;
  while (held.pages < chain.size() && old_stamps[held.pages] != 0) ++held.pages;
  held.pages = whole_pages(held.pages);
  held.checkpoint = held.pages;
  if (!dense) {
    while (held.checkpoint != 0 && checkpoint_orders[held.checkpoint - 1] == 0) --held.checkpoint;
  }
  ledger.touch_pages(stamp, old_stamps);
  return held;
}

// Boundaries (in units) that get a checkpoint, deepest first.
void replica_model::impl::choose_boundaries(const dispatch_result& held, std::uint32_t units,
                                            std::span<const std::uint32_t> hints) {
  boundaries.assign(1, units);
  const bool junctions =
      options.keeps == retention::prompt_end_second_sighting || options.keeps == retention::interval;
  if (junctions && held.pages > held.checkpoint && held.pages < units) boundaries.push_back(held.pages);
  if (options.keeps == retention::interval && options.interval_units != 0) {
    const auto step = options.interval_units;
    for (auto at = held.checkpoint / step * step + step; at < units; at += step) boundaries.push_back(at);
  }
  for (auto hint : hints) {
    hint = whole_pages(hint);
    if (hint > held.checkpoint && hint < units) boundaries.push_back(hint);
  }
  std::sort(boundaries.begin(), boundaries.end(), std::greater<>());
  boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());
}

void replica_model::impl::put_checkpoint(std::uint64_t stamp, std::span<const block_key> chain,
                                         std::uint32_t boundary, confidence from) {
  const auto unit = boundary - 1;
  const auto old_order = checkpoint_orders[unit];
  const auto word =
      with_confidence(stamp_field::set(who(entry_kind::model_checkpoint, replica), stamp), from);
  residency_table::fresh_records fresh(index.table);
  auto at = index.table.open_or_create(chain[unit], unit, fresh);
  if (!at || !at.put(word)) return;
  at = {};
  ledger.put_checkpoint(old_order, age_order(stamp, true, unit));
  checkpoint_orders[unit] = age_order(stamp, true, unit);
  if (old_order == 0) index.summarize(boundary_of(chain, unit));
}

replica_model::replica_model(residency_index& index, replica_id replica, const replica_model_options& options)
    : impl_(std::make_unique<impl>(*index.impl_, replica, options)) {
  assert(options.unit_tokens > 0 && options.checkpoint_tokens > 0);
  index.set_evidence(replica, evidence::simulated,
                     options.keeps == retention::dense ? evidence::implied : evidence::simulated);
}
replica_model::~replica_model() = default;

dispatch_result replica_model::dispatched(std::span<const block_key> chain,
                                          std::span<const std::uint32_t> hint_units) {
  chain = impl_->kept(chain);
  const std::lock_guard guard(impl_->mutex);
  impl_->follow_clear();
  if (chain.empty()) return {};
  const auto stamp = impl_->next_stamp();
  const auto held = impl_->touch_pages(stamp, chain);
  const bool has_checkpoints = impl_->options.keeps != retention::dense;
  if (has_checkpoints) {
    impl_->choose_boundaries(held, static_cast<std::uint32_t>(chain.size()), hint_units);
    for (const auto boundary : impl_->boundaries) {
      impl_->put_checkpoint(stamp, chain, boundary, confidence::predicted);
    }
  }
  impl_->raise_horizon();
  if (has_checkpoints && held.checkpoint != 0) {  // touched, not put: it may have left meanwhile
    const auto horizon = impl_->index.states[impl_->replica].horizon.load(std::memory_order_relaxed);
    if (impl_->checkpoint_orders[held.checkpoint - 1] > horizon) {
      impl_->put_checkpoint(stamp, chain, held.checkpoint, confidence::predicted);
    }
  }
  return held;
}

void replica_model::generated(std::span<const block_key> chain) {
  chain = impl_->kept(chain);
  const std::lock_guard guard(impl_->mutex);
  impl_->follow_clear();
  if (chain.empty()) return;
  impl_->touch_pages(impl_->next_stamp(), chain);
  impl_->raise_horizon();
}

void replica_model::correct(std::span<const block_key> chain, std::uint32_t cached_units) {
  chain = chain.first(std::min(chain.size(), k_chain_units_max));
  const std::lock_guard guard(impl_->mutex);
  auto& m = *impl_;
  m.follow_clear();
  if (chain.empty()) return;
  cached_units = std::min(cached_units, static_cast<std::uint32_t>(chain.size()));
  const bool dense = m.options.keeps == retention::dense;
  const auto self = who(dense ? entry_kind::model_pages : entry_kind::model_checkpoint, m.replica);
  const auto deeper = chain.subspan(cached_units);
  chain_ahead ahead(m.index.table, deeper);
  for (std::size_t i = 0; !dense && i + 1 < deeper.size(); ++i) {
    const auto unit = cached_units + i;
    ahead.at(i);
    auto at = m.index.table.open(deeper[i]);
    if (!at) break;  // nothing below was ever seen
    const auto order = m.live_order(at.get(self), static_cast<std::uint32_t>(unit));
    if (order == 0) continue;
    m.ledger.remove_checkpoint(order);
    at.erase(self);
  }
  if (cached_units == 0) return;
  const auto unit = cached_units - 1;
  std::uint64_t order = 0;
  if (auto at = m.index.table.open(chain[unit]); at) {
    order = m.live_order(at.get(self), unit);
    if (order != 0) at.put(with_confidence(at.get(self), confidence::observed));
  }
  if (order != 0 || dense) return;
  m.checkpoint_orders.assign(chain.size(), 0);
  const auto stamp = m.index.states[m.replica].last_stamp.load(std::memory_order_relaxed);
  const auto horizon = m.index.states[m.replica].horizon.load(std::memory_order_relaxed);
  if (age_order(stamp, true, unit) <= horizon) return;  // even the last dispatch has left
  m.put_checkpoint(stamp, chain, cached_units, confidence::observed);
  m.raise_horizon();
}

void replica_model::clear() {
  const std::lock_guard guard(impl_->mutex);
  auto& state = impl_->index.states[impl_->replica];
  const auto last = state.last_stamp.load(std::memory_order_relaxed);
  state.horizon.store(age_order(last, true, 0), std::memory_order_release);
  impl_->ledger.clear();
}

void replica_model::set_capacity(std::uint64_t capacity_tokens) {
  const std::lock_guard guard(impl_->mutex);
  impl_->follow_clear();
  impl_->ledger.set_capacity(capacity_tokens);
  impl_->raise_horizon();
}

std::uint64_t replica_model::used_tokens() const {
  const std::lock_guard guard(impl_->mutex);
  impl_->follow_clear();
  return impl_->ledger.used_tokens();
}

std::uint64_t replica_model::bookkeeping_bytes() const {
  const std::lock_guard guard(impl_->mutex);
  return impl_->ledger.bytes() + (impl_->old_stamps.capacity() + impl_->checkpoint_orders.capacity()) * 8;
}

}  // namespace weir::prefix_index
