// What residency_index, replica_model and index_store share. Internal to the folder.
#pragma once

#include <algorithm>
#include <span>

#include "prefix_index/residency_index.hpp"
#include "prefix_index/residency_table.hpp"

namespace weir::prefix_index {

// Keys whose table words and records are fetched together, so that their cache misses overlap.
inline constexpr std::size_t k_prefetch_keys = 16;

struct residency_index::impl {
  explicit impl(const index_options& o)
      : seed(o.seed), table(std::clamp(o.bytes_max, k_index_bytes_min, k_index_bytes_limit), states) {}

  void prefetch(std::span<const block_key> keys) const {
    for (const auto& key : keys) table.prefetch_slot(key);
    for (const auto& key : keys) table.prefetch_record(key);
  }

  // Notes in the summaries above it that a checkpoint may lie at the boundary.
  void summarize(const chain_boundary& boundary);

  const std::uint64_t seed;
  replica_states states;
  residency_table table;
};

}  // namespace weir::prefix_index
