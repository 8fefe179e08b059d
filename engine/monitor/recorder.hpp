// Keeps an engine's activity: the worker tells it of steps and sequences, anybody reads it.
//
// Threads: the worker's writes, read() from any. The clock is the caller's, so that tests have their own.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>

#include "engine/engine.hpp"
#include "engine/monitor/expert_load.hpp"
#include "engine/runner/batch.hpp"

namespace weir::engine::monitor {

using clock = std::chrono::steady_clock;

step_phase phase_of(std::span<const kernels::sequence_range> sequences) noexcept;

class recorder final {
 public:
  // `experts`: what the runner notes; null for a model without any.
  explicit recorder(std::shared_ptr<const expert_load> experts) : experts_(std::move(experts)) {}

  void arrived(sequence_id id, clock::time_point submitted);
  // Sequences that arrived and never ran.
  bool any_queued() const noexcept { return queued_ > 0; }
  // Those that run now, again or still; unknown ids are let pass.
  void running(std::span<const sequence_id> ids, clock::time_point now);
  void token(sequence_id id, clock::time_point now);
  void ended(sequence_id id, finish_reason reason, clock::time_point now);
  void step(const runner::batch& work, double seconds, const kernels::op_times& ops);

  engine_activity read() const;

 private:
  struct life {
    clock::time_point submitted;
    clock::time_point last_token;
    bool ran = false;
    bool spoke = false;
  };

  std::shared_ptr<const expert_load> experts_;
  std::unordered_map<sequence_id, life> lives_;  // the worker's, of what has not ended
  std::size_t queued_ = 0;                       // the worker's
  mutable std::mutex mutex_;
  engine_activity done_;  // under mutex_, but for the experts
};

}  // namespace weir::engine::monitor
