// Continuous batching: decides step by step which tokens of which sequences run next. Decode tokens come
// first, so that a long prompt never delays them; what is left of the step's budget goes to prompts in
// chunks, oldest first.
//
// A sequence is admitted, first come first served, when a state slot is free and the pages for its longest
// possible run are: once running it can never lack memory, so nothing is preempted and nothing deadlocks. No
// device, no clock, no thread: one thread (the worker's), or a test.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "engine/kv/index_pool.hpp"
#include "engine/runner/batch.hpp"
#include "engine/scheduler/sequence.hpp"

namespace weir::engine::scheduler {

struct limits {
  std::int32_t slot_count = 1;
  std::int32_t page_count = 1;
  std::int32_t page_tokens = 64;
  std::int32_t step_tokens_max = 512;  // >= slot_count, so that every decode fits a step
};

class scheduler final {
 public:
  explicit scheduler(const limits& config);

  // REQUIRES: the sequence's pages_needed() <= page_count.
  void add(std::unique_ptr<sequence> seq);

  // Admits what fits and lays out the next step; an empty batch when there is nothing to run.
  // The reference is valid until the next call.
  const runner::batch& plan();

  // Marks the planned tokens as computed. Returns the sequences that now get a token, in the order of the
  // batch's logit_rows.
  std::vector<sequence*> complete();

  // Takes a sequence out, running or waiting, and frees what it held. Null for an unknown id.
  std::unique_ptr<sequence> remove(sequence_id id);

  std::int32_t pages_needed(const sequence& seq) const noexcept;
  std::int32_t waiting_count() const noexcept { return static_cast<std::int32_t>(waiting_.size()); }
  std::int32_t running_count() const noexcept { return static_cast<std::int32_t>(running_.size()); }
  std::uint64_t prompt_tokens() const noexcept { return prompt_tokens_; }  // computed since construction
  bool has_work() const noexcept { return !waiting_.empty() || !running_.empty(); }
  std::vector<sequence_id> running_ids() const;
  std::vector<sequence_id> waiting_ids() const;
  const kv::index_pool& pages() const noexcept { return pages_; }
  const kv::index_pool& slots() const noexcept { return slots_; }

 private:
  struct planned {
    sequence* seq;
    std::int32_t count;
  };

  void admit();
  void plan_tokens(sequence& seq, std::int32_t count);

  limits limits_;
  kv::index_pool pages_;
  kv::index_pool slots_;
  std::deque<std::unique_ptr<sequence>> waiting_;   // oldest first
  std::vector<std::unique_ptr<sequence>> running_;  // in order of admission
  std::vector<planned> planned_;
  runner::batch batch_;
  std::uint64_t prompt_tokens_ = 0;
};

}  // namespace weir::engine::scheduler
