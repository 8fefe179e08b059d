// A replica that keeps what saves most: checkpoints where it was told to keep them, evicted by worth.
//
//   worth = chance of use * tokens saved / tokens taken
//     saved: from the next shallower checkpoint of the chain to this one
//     taken: the checkpoint, and the pages that only it needs
//     chance: 1 / (1 + age / ageing_s), times
//       1 + 0.1 for each earlier turn that the conversation resumed  (a prompt's end, nothing grew from it)
//       0.05                       (one longer prompt grew from it: the next turn resumes that one)
//       how often it was resumed   (several grew from it: a shared beginning)
// With a checkpoint at the end of a chain go the pages that only it needed, since they save nothing without
// it. Pages of a prompt that earned no checkpoint count 0.3 by their age alone.
//
// The rules of pages, matches and boundaries are replica_cache's. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "loadtest/truth/replica_cache.hpp"

namespace weir::loadtest::truth {

struct worth_rules {
  std::int64_t capacity_tokens = 2'560'000;
  std::int64_t page_tokens = 512;
  std::int64_t checkpoint_tokens = 16'253;
  double ageing_s = 100;
};

class worth_cache final {
 public:
  explicit worth_cache(const worth_rules& rules) : rules_(rules) {}

  cache_match match(std::span<const block_id> prompt) const;

  // `hints`: boundaries in pages; only those beyond what was resumed are computed and can be stored.
  void store(std::span<const block_id> prompt, const cache_match& match, std::span<const std::size_t> hints,
             double now_s, std::vector<cache_change>* changes);

  std::int64_t used_tokens() const noexcept { return used_tokens_; }

 private:
  using slot = std::uint32_t;
  static constexpr slot k_none = ~slot{0};

  struct page {
    block_id id = 0;
    slot parent = k_none;
    std::uint32_t depth = 0;  // pages from the start, this one included
    std::uint32_t children = 0;
    std::uint32_t resumed = 0;  // times, since its checkpoint was stored
    std::uint32_t turns = 0;    // resumptions in the history of this prompt's end
    bool checkpoint = false;
    bool held = false;
    double used_s = 0;  // the page
    double checkpoint_used_s = 0;
  };

  slot add_page(block_id id, slot parent, std::uint32_t depth);
  void add_checkpoint(slot s, std::uint32_t resumed, double now_s);
  double worth(slot s, double now_s) const;
  double fading(double since_s, double now_s) const;
  void evict_one(double now_s);
  void drop_checkpoint(std::size_t index);
  void drop_tail(slot s);
  void note(block_id id, part what, bool stored);

  worth_rules rules_;
  std::unordered_map<block_id, slot> slots_;
  std::vector<page> pages_;
  std::vector<slot> free_;
  std::vector<slot> checkpoints_;
  std::vector<slot> bare_ends_;  // of prompts without a checkpoint; stale where something grew
  std::int64_t used_tokens_ = 0;
  std::vector<cache_change>* changes_ = nullptr;
};

}  // namespace weir::loadtest::truth
