// An outcome that a coroutine waits for and another thread tells, perhaps when the coroutine is gone and with
// it its thread's io_context: it posts under the lock, and only while somebody waits.
//
//   const auto wait = std::make_shared<outcome_wait<T>>(executor);
//   const outcome_wait<T>::leaving guard{*wait};
//   wait->wake->expires_after(...);            then hand `wait` out
//   if (!wait->outcome) co_await wait->wake->async_wait(token);
#pragma once

#include <boost/asio/post.hpp>
#include <expected>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "gateway/ledger/types.hpp"
#include "gateway/task.hpp"

namespace weir::gateway::limits {

template <class T>
struct outcome_wait {
  explicit outcome_wait(io_executor e) : executor(e), wake(std::in_place, e) {}

  io_executor executor;
  std::optional<io_timer> wake;  // the coroutine's thread only; ends with the coroutine
  std::optional<T> outcome;      // that thread too
  std::mutex mutex;
  bool waited_for = true;  // under mutex

  // Lives in the coroutine.
  struct leaving {
    outcome_wait& wait;
    ~leaving() {
      wait.wake.reset();
      const std::lock_guard lock(wait.mutex);
      wait.waited_for = false;
    }
  };
};

using commit_wait = outcome_wait<std::expected<void, ledger::fault>>;

// From any thread.
template <class T>
void tell(const std::shared_ptr<outcome_wait<T>>& wait, T outcome) {
  const std::lock_guard lock(wait->mutex);
  if (!wait->waited_for) return;
  asio::post(wait->executor, [wait, outcome = std::move(outcome)] {
    wait->outcome = outcome;
    if (wait->wake) wait->wake->cancel();
  });
}

}  // namespace weir::gateway::limits
