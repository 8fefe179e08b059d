// Where a replica's decoded batches go. prefix_index::event_source is the state machine behind it in
// production; the interface exists so that the transport can be tested without an index.
//
// Threads: every call comes from the subscriber's thread; the sink is destroyed there or by its last other
// owner.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "gateway/kv_events/event_figures.hpp"
#include "prefix_index/event_source.hpp"

namespace weir::gateway::kv_events {

class stream_sink {
 public:
  virtual ~stream_sink() = default;

  // As in prefix_index::event_source.
  virtual prefix_index::event_step reconnected() = 0;
  virtual prefix_index::event_step received(std::uint64_t sequence, const prefix_index::kv_batch& batch) = 0;
  virtual prefix_index::event_step replayed(std::uint64_t sequence, const prefix_index::kv_batch& batch) = 0;
  virtual prefix_index::event_step replay_ended() = 0;
  virtual void reset() = 0;
  virtual std::string_view refusal() const = 0;
};

// The state machine as a sink.
class index_sink final : public stream_sink {
 public:
  explicit index_sink(std::unique_ptr<prefix_index::event_source> source)
      : source_(std::move(source)), figures_(std::make_shared<event_figures>()) {}

  prefix_index::event_step reconnected() override { return counted(source_->reconnected()); }
  prefix_index::event_step received(std::uint64_t sequence, const prefix_index::kv_batch& batch) override {
    return counted(source_->received(sequence, batch));
  }
  prefix_index::event_step replayed(std::uint64_t sequence, const prefix_index::kv_batch& batch) override {
    return counted(source_->replayed(sequence, batch));
  }
  prefix_index::event_step replay_ended() override { return counted(source_->replay_ended()); }
  void reset() override {
    source_->reset();
    figures_->set(source_->counters());
  }
  std::string_view refusal() const override { return source_->refusal(); }

  // Any thread.
  std::shared_ptr<const event_figures> figures() const noexcept { return figures_; }

  // REQUIRES: the subscriber's thread, or no subscriber has this sink.
  const prefix_index::event_source& source() const noexcept { return *source_; }

 private:
  prefix_index::event_step counted(prefix_index::event_step step) noexcept {
    figures_->set(source_->counters());
    return step;
  }

  std::unique_ptr<prefix_index::event_source> source_;
  std::shared_ptr<event_figures> figures_;
};

}  // namespace weir::gateway::kv_events
