// What residency_index, replica_model and index_store share. Internal to the folder.
#pragma once

#include <algorithm>
#include <span>

#include "prefix_index/residency_index.hpp"
#include "prefix_index/residency_table.hpp"

namespace weir::prefix_index {

// How far ahead of its use a record is fetched, and its table word twice as far, so that cache misses
// overlap.
inline constexpr std::size_t k_prefetch_keys = 16;

struct residency_index::impl {
  explicit impl(const index_options& o)
      : seed(o.seed), table(std::clamp(o.bytes_max, k_index_bytes_min, k_index_bytes_limit), states) {}

  // For walks over whole chains: call prefetch_start once, then prefetch_at before each key i.
  void prefetch_start(std::span<const block_key> keys) const {
    prefetch_slots(keys, 0);
    prefetch_slots(keys, k_prefetch_keys);
    prefetch_records(keys, 0);
  }
  void prefetch_at(std::span<const block_key> keys, std::size_t i) const {
    if (i % k_prefetch_keys != 0) return;
    prefetch_records(keys, i + k_prefetch_keys);
    prefetch_slots(keys, i + 2 * k_prefetch_keys);
  }

  // Notes in the summaries above it that a checkpoint may lie at the boundary.
  void summarize(const chain_boundary& boundary);

  void prefetch_slots(std::span<const block_key> keys, std::size_t first) const {
    const auto end = std::min(keys.size(), first + k_prefetch_keys);
    for (auto i = first; i < end; ++i) table.prefetch_slot(keys[i]);
  }
  void prefetch_records(std::span<const block_key> keys, std::size_t first) const {
    const auto end = std::min(keys.size(), first + k_prefetch_keys);
    for (auto i = first; i < end; ++i) table.prefetch_record(keys[i]);
  }

  const std::uint64_t seed;
  replica_states states;
  residency_table table;
};

}  // namespace weir::prefix_index
