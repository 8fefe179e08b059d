#include "engine/monitor/recorder.hpp"

#include <algorithm>

namespace weir::engine::monitor {

namespace {

double seconds(clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace

step_phase phase_of(std::span<const kernels::sequence_range> sequences) noexcept {
  const auto decodes = [](const kernels::sequence_range& s) { return s.count == 1; };
  if (std::ranges::all_of(sequences, decodes)) return step_phase::decode;
  return std::ranges::any_of(sequences, decodes) ? step_phase::mixed : step_phase::prefill;
}

void recorder::arrived(sequence_id id, clock::time_point submitted) {
  lives_[id].submitted = submitted;
  ++queued_;
}

void recorder::running(std::span<const sequence_id> ids, clock::time_point now) {
  for (const sequence_id id : ids) {
    const auto found = lives_.find(id);
    if (found == lives_.end() || std::exchange(found->second.ran, true)) continue;
    --queued_;
    const std::lock_guard lock(mutex_);
    done_.queue_s.observe(seconds(now - found->second.submitted));
  }
}

void recorder::token(sequence_id id, clock::time_point now) {
  life& of = lives_[id];
  const bool first = !std::exchange(of.spoke, true);
  const clock::time_point since = first ? of.submitted : of.last_token;
  of.last_token = now;
  const std::lock_guard lock(mutex_);
  (first ? done_.first_token_s : done_.token_gap_s).observe(seconds(now - since));
}

void recorder::ended(sequence_id id, finish_reason reason, clock::time_point now) {
  const auto found = lives_.find(id);
  if (found == lives_.end()) return;
  const life of = found->second;
  lives_.erase(found);
  if (!of.ran) --queued_;
  const std::lock_guard lock(mutex_);
  ++done_.ended[static_cast<std::size_t>(reason)];
  if (reason == finish_reason::stop || reason == finish_reason::length) {
    done_.request_s.observe(seconds(now - of.submitted));
  }
}

void recorder::step(const runner::batch& work, double seconds, const kernels::op_times& ops) {
  const auto phase = static_cast<std::size_t>(phase_of(work.sequences));
  const std::lock_guard lock(mutex_);
  phase_activity& to = done_.phases[phase];
  to.step_s.observe(seconds);
  to.tokens += static_cast<std::uint64_t>(work.row_count());
  for (std::size_t i = 0; i < kernels::k_ops; ++i) {
    to.ops.ns[i] += ops.ns[i];
    to.ops.calls[i] += ops.calls[i];
  }
  to.ops.experts_read += ops.experts_read;
}

engine_activity recorder::read() const {
  engine_activity out;
  {
    const std::lock_guard lock(mutex_);
    out = done_;
  }
  if (experts_ != nullptr) out.experts = experts_->read();
  return out;
}

}  // namespace weir::engine::monitor
