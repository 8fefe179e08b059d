// A value that another thread hands to a coroutine. The coroutine waits for some time only, and may be gone
// when the value comes, and with it its thread's io_context.
//
// Threads: the giver on any thread, at any time, also behind the end of the object; everything else on the
// coroutine's.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "gateway/task.hpp"

namespace weir::gateway {

template <class T>
class awaited final {
 public:
  explicit awaited(io_executor executor) : shared_(std::make_shared<shared>(executor)) {}
  ~awaited() {
    shared_->wake.reset();
    const std::lock_guard lock(shared_->mutex);
    shared_->waited_for = false;
  }
  awaited(const awaited&) = delete;
  awaited& operator=(const awaited&) = delete;

  // To be called at most once.
  auto giver() const {
    return [held = shared_](T value) { give(held, std::move(value)); };
  }

  // At most once. Nothing: the time is over.
  task<std::optional<T>> wait(std::chrono::milliseconds limit) {
    shared_->wake->expires_after(limit);
    const auto token = asio::as_tuple(use_task);
    if (!shared_->value) co_await shared_->wake->async_wait(token);
    co_return std::move(shared_->value);
  }

 private:
  struct shared {
    explicit shared(io_executor e) : executor(e), wake(std::in_place, e) {}

    io_executor executor;
    std::optional<io_timer> wake;  // the coroutine's thread only; ends with the coroutine
    std::optional<T> value;        // that thread too
    std::mutex mutex;
    bool waited_for = true;  // under mutex
  };

  // Under the lock, and only while somebody waits: so the io_context is there.
  static void give(const std::shared_ptr<shared>& to, T value) {
    const std::lock_guard lock(to->mutex);
    if (!to->waited_for) return;
    asio::post(to->executor, [to, held = std::move(value)]() mutable {
      to->value = std::move(held);
      if (to->wake) to->wake->cancel();
    });
  }

  std::shared_ptr<shared> shared_;
};

}  // namespace weir::gateway
