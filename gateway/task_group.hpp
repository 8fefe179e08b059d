// The only place where coroutines are spawned: an owner of running tasks on one I/O thread. Nothing is
// detached; a task's exception reaches the group's fault handler, and cancel_all() ends what still runs.
//
// Invariants: the group outlives its tasks; operation_aborted is the normal end of a cancelled task, not a
// fault. Threads: everything on the thread of the executor given.
#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <cstddef>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "gateway/task.hpp"

namespace weir::gateway {

class task_group final {
 public:
  using fault_handler = std::function<void(std::exception_ptr)>;
  using signal_ptr = std::shared_ptr<asio::cancellation_signal>;

  task_group(io_executor executor, fault_handler on_fault);
  task_group(const task_group&) = delete;
  task_group& operator=(const task_group&) = delete;

  // Runs `t`; it may run to its first suspension before spawn returns. `signal` cancels it: the caller's, or
  // a fresh one.
  void spawn(task<void> t, signal_ptr signal = nullptr);

  // Total cancellation of every task; each ends when its current await unwinds.
  void cancel_all();

  std::size_t size() const noexcept { return running_.size(); }
  io_executor executor() const noexcept { return executor_; }

 private:
  struct completion;

  io_executor executor_;
  fault_handler on_fault_;
  std::list<signal_ptr> running_;
};

// Runs both at once; one that returns true ends the other. Returns when both have ended, and cancellation
// ends both. A fault of either is rethrown, and ends the other too.
task<void> run_until_one_decides(task<bool> one, task<bool> other);

// What an exception that reached a fault handler says, for the log.
std::string describe(const std::exception_ptr& fault);

// First statement of a spawned task: lets cancellation of every kind through to its awaits.
inline auto accept_cancellation() {
  return asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
}

}  // namespace weir::gateway
