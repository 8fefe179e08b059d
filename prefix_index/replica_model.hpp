// What a replica without KV events must hold by now, from what we sent it: its page LRU and its checkpoint
// retention, simulated. Pages and checkpoints share one pool of capacity_tokens; a page costs its unit's
// tokens, a checkpoint checkpoint_tokens.
//
// A dispatch touches the prompt's pages tail first (so the head is the youngest), then puts a checkpoint at
// the prompt's end, at other boundaries that the retention names, deepest first, and touches the checkpoint
// that was reused. The oldest entries leave while the pool is over its capacity; an insert may evict pages of
// its own prompt. The model is exact: no lists, each entry in the index carries the number of the dispatch
// that touched it last, and it is resident while (dispatch, pages before checkpoints, deeper first) is above
// a horizon.
//
// Where the replica's pages are longer than a unit, what fills no whole page is not kept, and prompts part
// and end for it at whole pages: a checkpoint half a page further would be found by no prompt that goes on
// otherwise.
//
// Threads: any; each call holds the model's own lock. Lookups go through residency_index::find without it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "prefix_index/residency_index.hpp"

namespace weir::prefix_index {

// Kimi K3: one recurrent checkpoint weighs as much as the MLA pages of this many tokens.
inline constexpr std::uint32_t k_checkpoint_tokens_default = 16'253;

enum class retention : std::uint8_t {
  dense,                       // every page boundary can be resumed, checkpoints cost nothing
  prompt_end,                  // where each prompt ended
  prompt_end_second_sighting,  // and where a prompt left pages that were there but could not be resumed
  interval,                    // as before, and every interval_units of what was computed
};

struct replica_model_options {
  std::uint64_t capacity_tokens = 0;
  std::uint32_t unit_tokens = k_unit_tokens_default;
  std::uint32_t page_tokens = 0;  // of the replica; up to unit_tokens: every unit is kept
  std::uint32_t checkpoint_tokens = k_checkpoint_tokens_default;
  retention keeps = retention::dense;
  std::uint32_t interval_units = 0;  // for retention::interval, at least 1
};

// What the replica held when the request was sent.
struct dispatch_result {
  std::uint32_t pages = 0;       // contiguous units
  std::uint32_t checkpoint = 0;  // units that could be reused
};

class replica_model final {
 public:
  // The index outlives the model. Sets the replica's evidence to simulated.
  replica_model(residency_index& index, replica_id replica, const replica_model_options& options);
  ~replica_model();
  replica_model(const replica_model&) = delete;
  replica_model& operator=(const replica_model&) = delete;

  // A prompt was sent. `chain` holds its units up to prompt - 1 token (what may be reused at most).
  // hint_units are boundaries (units from the start, any order) at which the replica was told to keep a
  // checkpoint. What is held is counted in whole pages.
  dispatch_result dispatched(std::span<const block_key> chain,
                             std::span<const std::uint32_t> hint_units = {});

  // The reply's tokens became pages too: touches the chain's pages, puts no checkpoint.
  void generated(std::span<const block_key> chain);

  // The reply said that only cached_units could be reused; see residency_index::correct.
  void correct(std::span<const block_key> chain, std::uint32_t cached_units);

  // The replica restarted, or changed its capacity (what no longer fits leaves, oldest first).
  void clear();
  void set_capacity(std::uint64_t capacity_tokens);

  std::uint64_t used_tokens() const;
  std::uint64_t bookkeeping_bytes() const;  // besides the entries in the index

 private:
  friend class index_loader;
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace weir::prefix_index
