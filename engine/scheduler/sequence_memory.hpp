// What a sequence holds of the pool: gives it a state and pages at admission, from the prefix cache as far as
// that has them, and a page whenever it grows; keeps its state at its cuts. Where the pool is full the cache
// is evicted first; what is refused then is the scheduler's to solve.
//
// Invariant: no page is written that anyone else reads at the positions written. One thread (the worker's).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/cache/prefix_cache.hpp"
#include "engine/kv/memory_op.hpp"
#include "engine/kv/memory_pool.hpp"
#include "engine/scheduler/sequence.hpp"

namespace weir::engine::scheduler {

struct memory_config {
  kv::pool_shape pool;
  std::int32_t page_tokens = 64;
  bool cache = true;
  std::int32_t unit_tokens = 64;
  std::int32_t spacing_tokens = 0;  // 0, or a multiple of unit_tokens
  std::int64_t remembered_tokens_max = 1 << 22;
  std::uint64_t hash_seed = 0;
  bool events = false;
};

class sequence_memory final {
 public:
  explicit sequence_memory(const memory_config& config);

  // Whether a sequence of so many positions fits the pool when it has that to itself.
  bool fits(std::int32_t positions) const noexcept;

  // Gives the sequence a state and the pages of all its tokens, with `computed` at what the cache had, if
  // that leaves `spare_pages` that are free or evictable. Else false, and nothing changed.
  bool admit(sequence& seq, std::int64_t spare_pages);

  // Whether `next` had better wait for `running`, which is about to compute a good part of the same prompt:
  // it makes sure that a state is kept where the two part. So a burst of siblings computes what they share
  // once.
  bool await_shared(const sequence& next, sequence& running) const;

  // Pages for all its tokens. False when there is none to be had, even from the cache.
  bool grow(sequence& seq);

  // To be called when `computed` advanced: keeps a copy of the state if this is a cut and the copy is worth
  // its place.
  void keep(const sequence& seq);

  // The next position at which a step must end; INT32_MAX for none.
  std::int32_t next_cut(const sequence& seq) const noexcept;

  void release(sequence& seq);

  // The copies decided since the last call.
  std::vector<kv::memory_op> take_ops() { return std::exchange(ops_, {}); }

  const kv::memory_pool& pool() const noexcept { return pool_; }
  const cache::prefix_cache& cached() const noexcept { return cache_; }
  std::vector<cache::cache_event> take_events() { return cache_.take_events(); }

 private:
  std::int32_t pages_of(std::int32_t positions) const noexcept {
    return (positions + config_.page_tokens - 1) / config_.page_tokens;
  }
  bool admit_with(sequence& seq, const cache::cache_match& match, std::int64_t spare_pages);
  void make_cuts(sequence& seq, const cache::cache_match& match) const;
  std::optional<std::int32_t> take_state();  // without eviction
  std::int32_t must_take_page();
  const cut* cut_at(const sequence& seq, std::int32_t position) const noexcept;

  memory_config config_;
  kv::memory_pool pool_;
  cache::prefix_cache cache_;
  std::vector<kv::memory_op> ops_;
};

}  // namespace weir::engine::scheduler
