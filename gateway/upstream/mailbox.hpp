// Hands the engine's token events to the I/O thread that awaits them: the engine's worker pushes, one
// coroutine drains. A burst of pushes costs one wake-up. Bounded by what the sequences may generate.
//
// Threads: push() from the engine's worker; everything else on the I/O thread given at construction. Held by
// shared pointer by both sides, so either may let go first.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "engine/engine.hpp"
#include "gateway/task.hpp"
#include "gateway/upstream/upstream.hpp"

namespace weir::gateway::upstream {

struct prompt_started {
  std::int32_t cached_tokens = 0;  // of the prompt
};

struct mail {
  int choice = 0;
  std::variant<engine::token_event, engine::finish_reason, prompt_started> what;
};

enum class wait_outcome {
  ready,      // at least one mail is there
  timed_out,  // the deadline passed
  cancelled,  // the awaiting coroutine is being cancelled
};

class mailbox final : public std::enable_shared_from_this<mailbox> {
 public:
  explicit mailbox(io_executor executor) : executor_(executor), wake_(std::in_place, executor) {}

  void push(mail m) noexcept;

  // Waits until there is mail. At most one waiter.
  task<wait_outcome> wait(time_point deadline);

  // Ends the delivery: later mail is dropped, and the io_context may end before the engine lets go of its
  // sinks. No waiter may be left.
  void close() noexcept;

  // Moves all mail to `out`, in order.
  void drain(std::vector<mail>& out);

 private:
  bool empty();

  io_executor executor_;
  std::optional<io_timer> wake_;  // I/O thread; none after close()
  std::mutex mutex_;
  std::vector<mail> mails_;   // under mutex_
  bool closed_ = false;       // under mutex_
  bool wake_posted_ = false;  // under mutex_
};

// The engine's sink for one choice.
class choice_sink final : public engine::event_sink {
 public:
  choice_sink(std::shared_ptr<mailbox> box, int choice) : box_(std::move(box)), choice_(choice) {}
  void on_started(std::int32_t cached_tokens) noexcept override {
    box_->push({choice_, prompt_started{cached_tokens}});
  }
  void on_token(const engine::token_event& event) noexcept override { box_->push({choice_, event}); }
  void on_finished(engine::finish_reason reason) noexcept override { box_->push({choice_, reason}); }

 private:
  std::shared_ptr<mailbox> box_;
  int choice_;
};

}  // namespace weir::gateway::upstream
