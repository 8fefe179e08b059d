// What residency_index, replica_model and index_store share. Internal to the folder.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <span>
#include <utility>

#include "prefix_index/residency_index.hpp"
#include "prefix_index/residency_table.hpp"

namespace weir::prefix_index {

// How many records are fetched together, one batch ahead of their use, and their table words two ahead.
inline constexpr std::size_t k_prefetch_keys = 16;

// Tells one listener, the store, of changes that no caller reports to it: those by events. While the listener
// runs it is not taken away; no keys: a replica was cleared. Any thread.
class change_feed final {
 public:
  using listener = std::function<void(std::span<const block_key>)>;

  void set(listener to) {
    const std::lock_guard guard(mutex_);
    listener_ = std::move(to);
    on_.store(listener_ != nullptr, std::memory_order_release);
  }
  bool is_on() const { return on_.load(std::memory_order_acquire); }
  void tell(std::span<const block_key> keys) const {
    if (!is_on()) return;
    const std::lock_guard guard(mutex_);
    if (listener_) listener_(keys);
  }

 private:
  std::atomic<bool> on_ = false;
  mutable std::mutex mutex_;
  listener listener_;
};

struct residency_index::impl {
  explicit impl(const index_options& o)
      : seed(o.seed), table(std::clamp(o.bytes_max, k_index_bytes_min, k_index_bytes_limit), states) {}

  // Notes in the summaries above it that a checkpoint may lie at the boundary.
  void summarize(const chain_boundary& boundary);

  const std::uint64_t seed;
  replica_states states;
  residency_table table;
  change_feed changes;
};

// Goes ahead of a writer's walk over a chain: call at(i) before each key i, from 0 on. Fetching in batches
// lets the misses of a batch overlap, which they would not between two locked records.
class chain_ahead final {
 public:
  chain_ahead(residency_table& table, std::span<const block_key> keys)
      : table_(table), keys_(keys), fresh_(table) {
    fetch_slots(0);
    fetch_slots(k_prefetch_keys);
    fetch_records(0);
  }

  void at(std::size_t i) {
    if (i % k_prefetch_keys != 0) return;
    fetch_records(i + k_prefetch_keys);
    fetch_slots(i + 2 * k_prefetch_keys);
  }

  // After at(i).
  residency_table::locked open_or_create(std::size_t i, std::uint32_t depth) {
    return table_.open_or_create(keys_[i], depth, fresh_, hints_[i % hints_.size()]);
  }

 private:
  std::size_t end(std::size_t first) const { return std::min(keys_.size(), first + k_prefetch_keys); }
  void fetch_slots(std::size_t first) const {
    for (auto i = first, last = end(first); i < last; ++i) table_.prefetch_slot(keys_[i]);
  }
  void fetch_records(std::size_t first) {
    for (auto i = first, last = end(first); i < last; ++i) {
      hints_[i % hints_.size()] = table_.prefetch_record(keys_[i]);
    }
  }

  residency_table& table_;
  const std::span<const block_key> keys_;
  residency_table::fresh_records fresh_;
  std::array<record_id, 2 * k_prefetch_keys> hints_{};
};

}  // namespace weir::prefix_index
