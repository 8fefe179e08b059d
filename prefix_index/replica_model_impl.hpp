// The inside of replica_model, which index_store refills after a restart. Internal to the folder.
#pragma once

#include <mutex>
#include <vector>

#include "prefix_index/lru_ledger.hpp"
#include "prefix_index/replica_model.hpp"
#include "prefix_index/residency_impl.hpp"

namespace weir::prefix_index {

struct replica_model::impl {
  impl(residency_index::impl& i, replica_id r, const replica_model_options& o);

  void follow_clear();
  std::uint64_t next_stamp();
  void raise_horizon();

  // The units that hold the whole pages of the first `units`; a page's last unit counts although the page may
  // end within it.
  std::uint32_t whole_pages(std::uint32_t units) const noexcept;

  // What of a prompt the replica keeps.
  std::span<const block_key> kept(std::span<const block_key> chain) const noexcept;

  // The entry's age if it is resident, else 0.
  std::uint64_t live_order(std::uint64_t word, std::uint32_t unit) const;

  // Fills old_stamps and checkpoint_orders; returns what was held before.
  dispatch_result touch_pages(std::uint64_t stamp, std::span<const block_key> chain);
  void choose_boundaries(const dispatch_result& held, std::uint32_t units,
                         std::span<const std::uint32_t> hints);
  void put_checkpoint(std::uint64_t stamp, std::span<const block_key> chain, std::uint32_t boundary,
                      confidence from);

  residency_index::impl& index;
  const replica_id replica;
  const replica_model_options options;

  std::mutex mutex;  // of all below
  lru_ledger ledger;
  std::uint64_t epoch = 0;
  std::vector<std::uint64_t> old_stamps;         // per unit of the prompt; 0: not resident
  std::vector<std::uint64_t> checkpoint_orders;  // per unit; 0: none
  std::vector<std::uint32_t> boundaries;
};

}  // namespace weir::prefix_index
