// What a replica of a hybrid model really holds: attention pages and recurrent checkpoints in one pool,
// counted in tokens. A prompt can resume at the deepest checkpoint on its chain of held pages; pages beyond
// it save nothing. This is the oracle that predictions are measured against, so it shares no code with them.
//
// A prompt is a chain of block ids, each naming its block and all before it; a block is one page. The caller
// leaves out a partial last block and one that would hold the prompt's last token, which always runs.
//
// What a prompt leaves, in this order of touches:
//   lru:   pages, tail first, so that the head is the youngest; checkpoints at each interval computed anew;
//   at the
//          prompt's end; at the junction (the frontier of pages, where that lies beyond the resumed
//          checkpoint and before the end: a prefix seen for the second time); at hints; then the checkpoint
//          that was resumed.
//   value: pages, tail first; the resumed checkpoint; the junction, or the hints in its stead where there are
//   any;
//          the intervals; the prompt's end. What is evicted first has the lowest clock + freq * saved tokens
//          / cost, the clock being the last evicted priority (greedy dual size frequency); a page saves
//          page_tokens.
// Only boundaries beyond the resumed one are computed, so only they can be stored. A thing that costs more
// than the pool evicts everything, itself last. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "loadtest/truth/slot_table.hpp"

namespace weir::loadtest::truth {

enum class eviction_order : std::uint8_t { lru, value };

struct cache_rules {
  std::int64_t capacity_tokens = 2'560'000;
  std::int64_t page_tokens = 512;           // > 0
  std::int64_t checkpoint_tokens = 16'253;  // what one costs, > 0
  bool dense = false;                       // every held page can be resumed at; no checkpoint is stored
  bool prompt_end = true;
  bool second_sighting = true;
  std::int64_t interval_pages = 0;  // > 0: also a checkpoint at each multiple
  eviction_order eviction = eviction_order::lru;
};

struct cache_match {
  std::size_t pages = 0;     // held from the start without a hole
  std::size_t reusable = 0;  // pages that a prefill may skip: the deepest checkpoint at or before `pages`
};

struct cache_change {
  block_id id = 0;
  part what = part::page;
  bool stored = true;  // else evicted
};

class replica_cache final {
 public:
  explicit replica_cache(const cache_rules& rules) : rules_(rules) {}

  // Touches nothing.
  cache_match match(std::span<const block_id> prompt) const noexcept;

  // What the prompt leaves, given the match that it ran with. `hints`: boundaries in pages worth a
  // checkpoint; those not in (reusable, prompt.size()] are passed over. `changes`, where given, gets what
  // came and went, in order; something may come and go in one call.
  void store(std::span<const block_id> prompt, const cache_match& match,
             std::span<const std::size_t> hints = {}, std::vector<cache_change>* changes = nullptr);

  bool holds(block_id id, part what) const noexcept { return table_.find(id, what) != slot_table::k_none; }
  std::int64_t used_tokens() const noexcept { return used_tokens_; }
  const cache_rules& rules() const noexcept { return rules_; }
  void clear();

 private:
  struct entry {
    block_id id = 0;
    std::uint32_t older = slot_table::k_none;  // lru
    std::uint32_t newer = slot_table::k_none;
    part what = part::page;
    std::int64_t frequency = 0;  // value
    double saved_tokens = 0;
    double priority = 0;
    std::uint64_t tick = 0;  // of the last touch
  };
  struct candidate {  // of eviction; stale when its tick is no longer the entry's
    double priority;
    std::uint64_t tick;
    std::uint32_t slot;
  };

  void store_lru(std::span<const block_id> prompt, const cache_match& match,
                 std::span<const std::size_t> hints);
  void store_by_value(std::span<const block_id> prompt, const cache_match& match,
                      std::span<const std::size_t> hints);
  void put_intervals(std::span<const block_id> prompt, std::size_t behind);
  void put_checkpoint(std::span<const block_id> prompt, std::size_t boundary);
  void put(block_id id, part what, std::int64_t saved_tokens);
  void touch(std::uint32_t slot, std::int64_t saved_tokens, bool is_new);
  std::uint32_t take_slot(block_id id, part what);
  void evict_one();
  std::uint32_t least_valuable();
  void evict(std::uint32_t slot);
  void link_newest(std::uint32_t slot);
  void unlink(std::uint32_t slot);
  void drop_stale_candidates();
  std::int64_t cost(part what) const noexcept {
    return what == part::page ? rules_.page_tokens : rules_.checkpoint_tokens;
  }

  cache_rules rules_;
  slot_table table_;
  std::vector<entry> entries_;
  std::vector<std::uint32_t> free_;
  std::uint32_t oldest_ = slot_table::k_none;
  std::uint32_t newest_ = slot_table::k_none;
  std::vector<candidate> heap_;  // the lowest priority, then the oldest tick, in front
  double clock_ = 0;
  std::uint64_t ticks_ = 0;
  std::int64_t used_tokens_ = 0;
  std::vector<cache_change>* changes_ = nullptr;
};

}  // namespace weir::loadtest::truth
