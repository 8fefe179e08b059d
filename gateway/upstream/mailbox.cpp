#include "gateway/upstream/mailbox.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>

namespace weir::gateway::upstream {

void mailbox::push(mail m) noexcept {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  mails_.push_back(std::move(m));
  if (wake_posted_) return;
  wake_posted_ = true;
  // Under the lock: close() then happens before or after, never while the io_context is being used.
  asio::post(executor_, [self = shared_from_this()] {
    if (self->wake_) self->wake_->cancel();
  });
}

void mailbox::close() noexcept {
  wake_.reset();
  const std::lock_guard lock(mutex_);
  closed_ = true;
  mails_.clear();
}

bool mailbox::empty() {
  const std::lock_guard lock(mutex_);
  wake_posted_ = false;
  return mails_.empty();
}

task<wait_outcome> mailbox::wait(time_point deadline) {
  const auto cancellation = co_await asio::this_coro::cancellation_state;
  while (empty()) {
    if (cancellation.cancelled() != asio::cancellation_type::none) co_return wait_outcome::cancelled;
    if (std::chrono::steady_clock::now() >= deadline) co_return wait_outcome::timed_out;
    wake_->expires_at(deadline);
    const auto token = asio::as_tuple(use_task);
    co_await wake_->async_wait(token);
  }
  co_return wait_outcome::ready;
}

void mailbox::drain(std::vector<mail>& out) {
  out.clear();
  const std::lock_guard lock(mutex_);
  out.swap(mails_);
}

}  // namespace weir::gateway::upstream
