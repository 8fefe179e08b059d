#include "gateway/limits/account.hpp"

#include <chrono>
#include <utility>

namespace weir::gateway::limits {

std::int64_t cell_now_ns() noexcept {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool account::enter(running_request& request, std::int64_t most) {
  const std::lock_guard lock(mutex_);
  if (revoked() || (most > 0 && running() >= most)) return false;
  running_.fetch_add(1, std::memory_order_relaxed);
  request.before_ = nullptr;
  request.behind_ = first_;
  if (first_ != nullptr) first_->before_ = &request;
  first_ = &request;
  return true;
}

void account::leave(running_request& request) noexcept {
  const std::lock_guard lock(mutex_);
  running_.fetch_sub(1, std::memory_order_relaxed);
  if (first_ == &request) first_ = request.behind_;
  if (request.before_ != nullptr) request.before_->behind_ = request.behind_;
  if (request.behind_ != nullptr) request.behind_->before_ = request.before_;
}

void account::revoke() noexcept {
  const std::lock_guard lock(mutex_);
  revoked_.store(true, std::memory_order_relaxed);
  for (auto* request = first_; request != nullptr; request = request->behind_) request->end_soon();
}

std::shared_ptr<account> account_table::of(std::string_view id) {
  const std::lock_guard lock(mutex_);
  auto found = accounts_.find(id);
  if (found == accounts_.end()) {
    found = accounts_.emplace(std::string(id), std::make_shared<account>(std::string(id))).first;
  }
  return found->second;
}

void account_table::retire(std::string_view id) {
  std::shared_ptr<account> old;
  {
    const std::lock_guard lock(mutex_);
    const auto found = accounts_.find(id);
    if (found == accounts_.end()) return;
    auto fresh = std::make_shared<account>(std::string(id));
    const auto now_ns = cell_now_ns();
    fresh->requests.restore(found->second->requests.empty_in_ns(now_ns), now_ns);
    fresh->tokens.restore(found->second->tokens.empty_in_ns(now_ns), now_ns);
    old = std::exchange(found->second, std::move(fresh));
  }
  old->revoke();
}

void account_table::for_each(const std::function<void(const account&)>& look) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, found] : accounts_) look(*found);
}

}  // namespace weir::gateway::limits
