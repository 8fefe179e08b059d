// Remembers prompts, and what of their computation is still in the pool: KDA checkpoints at explicit
// positions, each with the MLA pages of everything before it. Pages without a later checkpoint save nothing,
// as their tokens must run through every layer again, so none are kept; their tokens are, which is how a
// prefix is noticed when it is seen a second time.
//
// A hit is the deepest checkpoint boundary b of the prompt with b <= limit. Its user shares the pages that b
// fills and copies the one that it does not; the checkpoint is copied as well, so that nobody ever writes
// what the cache holds: the sequence that a page came from writes only positions behind the boundary.
//
// What is evicted first is what saves least, frequency * tokens of recompute per byte, with ageing: the value
// of the last one evicted is added to those used later (GreedyDual-Size-Frequency). Positions of boundaries
// are multiples of the hash unit, whatever the pages' size is. Pages are held by reference, so evicting never
// takes one from a running sequence. No clock, no memory of its own. One thread (the worker's).
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/cache/cache_event.hpp"
#include "engine/cache/token_tree.hpp"
#include "engine/kv/memory_pool.hpp"

namespace weir::engine::cache {

// Why a checkpoint is kept.
enum class checkpoint_kind : std::uint8_t {
  prompt_end,  // the end of a prompt, rounded down to the hash unit
  junction,    // the end of what two prompts share, at the second sighting
  hint,        // the request asked for it
  interval,    // every so many tokens
};
inline constexpr std::size_t k_checkpoint_kinds = 4;

struct cache_config {
  std::int32_t unit_tokens = 64;  // hash unit: boundaries are multiples of it
  std::int32_t page_tokens = 64;
  std::int64_t remembered_tokens_max = 1 << 22;  // of prompts that hold nothing in the pool
  std::uint64_t hash_seed = 0;
  bool events = false;  // keep a list of them for take_events()
};

struct cache_match {
  std::int32_t reusable = 0;        // tokens; 0: no checkpoint
  std::int32_t known = 0;           // tokens of the prompt that were seen before, in whole units up to limit
  std::int32_t node = k_none;       // of the checkpoint
  std::int32_t state = -1;          // its slab
  std::vector<std::int32_t> pages;  // handles for positions [0, reusable), not retained
};

struct cache_counters {
  std::array<std::uint64_t, k_checkpoint_kinds> hit_tokens{};  // by the kind of the checkpoint that was hit
  std::uint64_t stored = 0;                                    // checkpoints
  std::uint64_t evicted = 0;
};

class prefix_cache final {
 public:
  // The pool outlives the cache.
  prefix_cache(const cache_config& config, kv::memory_pool& pool);

  cache_match match(std::string_view scope, std::span<const std::int32_t> tokens, std::int32_t limit) const;

  // Counts a match that is being used. REQUIRES: nothing was evicted since match().
  void use(const cache_match& match);

  // Notes the prompt's tokens.
  void remember(std::string_view scope, std::span<const std::int32_t> tokens);

  // Whether a checkpoint after `tokens` is not there yet.
  bool wants(std::string_view scope, std::span<const std::int32_t> tokens) const;

  // Whether a new checkpoint after `tokens` would be worth more than the least one here.
  bool worth_evicting_for(std::string_view scope, std::span<const std::int32_t> tokens) const;

  // Takes over `state`, the checkpoint after `tokens`, and shares `pages`, the handles for their positions.
  // REQUIRES: wants(), a multiple of the unit.
  void store(std::string_view scope, std::span<const std::int32_t> tokens,
             std::span<const std::int32_t> pages, std::int32_t state, checkpoint_kind kind);

  // Drops the least valuable checkpoint and the pages that only it needed. False when there is none.
  bool evict();

  // Places that eviction of everything would free: the states' and the pages that no sequence holds.
  std::int64_t evictable_pages() const noexcept;

  std::int32_t checkpoint_count() const noexcept { return static_cast<std::int32_t>(order_.size()); }
  const cache_counters& counters() const noexcept { return counters_; }
  std::vector<cache_event> take_events() { return std::exchange(events_, {}); }

 private:
  struct holding {
    std::vector<std::int32_t> pages;  // that the unit's positions touch; empty: nothing is held
    std::int32_t paged_children = 0;
    std::int32_t state = -1;  // slab of the checkpoint after the unit, if any
    checkpoint_kind kind = checkpoint_kind::prompt_end;
    double frequency = 0;
    double base = 0;   // age at the last use
    double value = 0;  // where order_ has it
  };

  holding& held(std::int32_t node) { return held_[static_cast<std::size_t>(node)]; }
  const holding& held(std::int32_t node) const { return held_[static_cast<std::size_t>(node)]; }
  std::int32_t end_of(std::int32_t node) const noexcept { return tree_.at(node).depth * config_.unit_tokens; }
  double worth(std::int32_t node, double frequency, bool paged_below) const;
  void give_pages(std::int32_t node, std::span<const std::int32_t> pages);
  void drop(std::int32_t node);
  void set_value(std::int32_t node);
  void touch(const std::vector<std::int32_t>& path);
  void trim();
  void note(cache_event::kind what, cache_event::group group, std::int32_t node);

  cache_config config_;
  kv::memory_pool& pool_;
  token_tree tree_;
  std::vector<holding> held_;                        // by node
  std::set<std::pair<double, std::int32_t>> order_;  // (value, node) of every checkpoint
  double age_ = 0;
  cache_counters counters_;
  std::vector<cache_event> events_;
};

}  // namespace weir::engine::cache
