// Continuous batching: decides step by step which tokens of which sequences run next. Decode tokens come
// first, so that a long prompt never delays them; what is left of the step's budget goes to prompts in
// chunks, shared among tenants by deficit round robin; within one, turns go to the oldest and to the shortest
// alternately. A chunk ends where a state is to be kept.
//
// A sequence is admitted, tenants taking turns and first come first served within one, when there is memory
// for its tokens so far and a page more for everybody who runs; unless a running one of its tenant is about
// to compute much of its prompt: then it waits for that, and starts from there. When a running sequence finds
// no memory left, the cache having been evicted, the youngest one loses its own and waits to be computed
// again, its new tokens as part of its prompt: what it says does not change by that. The oldest one is never
// the victim of another, so there is always progress. No device, no clock, no thread: one thread (the
// worker's), or a test.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/runner/batch.hpp"
#include "engine/scheduler/fair_share.hpp"
#include "engine/scheduler/sequence.hpp"
#include "engine/scheduler/sequence_memory.hpp"

namespace weir::engine::scheduler {

struct limits {
  std::int32_t sequences_max = 1;       // running at once
  std::int32_t step_tokens_max = 512;   // >= sequences_max, so that every decode fits a step
  std::int32_t chunk_align_tokens = 1;  // chunks that may end anywhere end at multiples of this
  memory_config memory;
};

struct scheduler_counters {
  std::uint64_t prompt_tokens = 0;      // computed
  std::uint64_t recomputed_tokens = 0;  // of prompts and answers, after a preemption
  std::uint64_t preemptions = 0;
};

class scheduler final {
 public:
  explicit scheduler(const limits& config);

  // REQUIRES: memory().fits(positions_max()).
  void add(std::unique_ptr<sequence> seq);

  // Admits what fits and lays out the next step; an empty batch when there is nothing to run. Beside decoding
  // sequences at most `prompt_tokens_max` of prompts. The reference is valid until the next call.
  const runner::batch& plan(std::int32_t prompt_tokens_max = std::numeric_limits<std::int32_t>::max());

  // Sequences of the planned step that only decode: its first rows.
  std::int32_t decoding_count() const noexcept { return decoding_; }

  // The copies to do, in order, before the planned step runs.
  std::vector<kv::memory_op> take_ops() { return memory_.take_ops(); }

  // Marks the planned tokens as computed. Returns the sequences that now get a token, in the order of the
  // batch's logit_rows.
  std::vector<sequence*> complete();

  // Takes a sequence out, running or waiting, and frees what it held. Null for an unknown id.
  std::unique_ptr<sequence> remove(sequence_id id);

  std::int32_t waiting_count() const noexcept { return waiting_; }
  std::int32_t running_count() const noexcept { return static_cast<std::int32_t>(running_.size()); }
  bool has_work() const noexcept { return waiting_ > 0 || !running_.empty(); }
  std::vector<sequence_id> running_ids() const;
  std::vector<sequence_id> waiting_ids() const;
  const scheduler_counters& counters() const noexcept { return counters_; }
  const sequence_memory& memory() const noexcept { return memory_; }
  std::vector<cache::cache_event> take_events() { return memory_.take_events(); }

 private:
  struct planned {
    sequence* seq;
    std::int32_t count;
  };
  struct tenant {
    std::string scope;
    std::deque<std::unique_ptr<sequence>> waiting;  // oldest first
    std::int32_t live = 0;                          // waiting and running
    std::int32_t prefilling = 0;                    // while a step is laid out: that still want tokens
  };

  // Of a step's budget for prompts.
  struct share {
    sequence* seq;
    std::int32_t wanted;  // up to the end of its prompt or its next cut
    std::int32_t given = 0;
  };

  void leave(std::int32_t tenant);
  void wait(std::unique_ptr<sequence> seq);
  void grow();
  void preempt_youngest();
  void admit();
  std::vector<share>::iterator pick(std::vector<share>& shares, std::int32_t of);
  void plan_prompts(std::int32_t budget);
  void plan_tokens(sequence& seq, std::int32_t count);

  limits limits_;
  sequence_memory memory_;
  std::map<std::int32_t, tenant> tenants_;
  std::map<std::string, std::int32_t> tenant_ids_;
  std::int32_t next_tenant_ = 0;
  std::int32_t waiting_ = 0;
  fair_share admission_;
  fair_share prefill_;
  std::vector<std::unique_ptr<sequence>> running_;  // oldest first
  std::vector<planned> planned_;
  std::vector<std::int32_t> places_;  // of the pages of one sequence
  runner::batch batch_;
  std::int32_t decoding_ = 0;
  bool shortest_first_ = true;
  scheduler_counters counters_;
};

}  // namespace weir::engine::scheduler
