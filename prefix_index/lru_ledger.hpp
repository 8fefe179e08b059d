// What fills a simulated replica's pool and in which order it will leave, without a list of entries: pages of
// one dispatch that nobody touched since are always one range of depths, because whoever touches a page
// touches all pages above it. So a dispatch is one range, evicted from its deep end; checkpoints are few and
// kept one by one. Internal to replica_model.
//
// Invariant: used_tokens() is the sum over ranges and checkpoints. Threads: the model's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "prefix_index/residency_entry.hpp"

namespace weir::prefix_index {

struct lru_costs {
  std::uint64_t capacity_tokens = 0;
  std::uint64_t page_tokens = 0;
  std::uint64_t checkpoint_tokens = 0;
};

class lru_ledger final {
 public:
  explicit lru_ledger(const lru_costs& costs) : costs_(costs) {}

  // Pages 0 .. old_stamps.size() - 1 of a prompt are touched by dispatch `stamp`, the newest; old_stamps[i]
  // is the dispatch that page i counted for until now, 0 if it was not resident.
  void touch_pages(std::uint64_t stamp, std::span<const std::uint64_t> old_stamps);

  // Orders as age_order gives them; an old order of 0 means that it was not resident.
  void put_checkpoint(std::uint64_t old_order, std::uint64_t new_order);
  void remove_checkpoint(std::uint64_t order);

  // Evicts the oldest while the pool is over its capacity; returns the order of the last one evicted, 0 if
  // none.
  std::uint64_t evict();

  void clear();
  void set_capacity(std::uint64_t tokens) { costs_.capacity_tokens = tokens; }

  // Pages first_unit .. end_unit - 1 count for dispatch `stamp`. REQUIRES: stamps ascend from call to call,
  // before any touch.
  void restore_pages(std::uint64_t stamp, std::uint32_t first_unit, std::uint32_t end_unit);

  std::uint64_t used_tokens() const { return used_tokens_; }
  std::size_t bytes() const;

 private:
  struct range {
    std::uint64_t stamp = 0;
    std::uint32_t first = 0;  // everything above it was touched later
    std::uint32_t end = 0;
  };

  void shorten(std::uint64_t stamp, std::uint32_t touched_units);
  void drop_empty();

  lru_costs costs_;
  std::uint64_t used_tokens_ = 0;
  std::vector<range> ranges_;  // by stamp; those before head_ are gone
  std::size_t head_ = 0;
  std::size_t empty_ = 0;  // ranges from head_ on without pages
  std::set<std::uint64_t> checkpoints_;
};

}  // namespace weir::prefix_index
