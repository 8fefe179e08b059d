// The process-wide count of request-body bytes held in memory. Any thread.
#pragma once

#include <atomic>
#include <cstddef>

namespace weir::gateway::http {

class byte_budget final {
 public:
  explicit byte_budget(std::size_t bytes_max) noexcept : bytes_max_(bytes_max) {}
  byte_budget(const byte_budget&) = delete;
  byte_budget& operator=(const byte_budget&) = delete;

  // False, and nothing taken, where it would pass the maximum.
  bool try_acquire(std::size_t bytes) noexcept {
    std::size_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > bytes_max_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void release(std::size_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  std::size_t used_bytes() const noexcept { return used_.load(std::memory_order_relaxed); }
  std::size_t bytes_max() const noexcept { return bytes_max_; }

 private:
  const std::size_t bytes_max_;
  std::atomic<std::size_t> used_{0};
};

// What one exchange holds of a budget; released with it. One owner.
class budget_hold final {
 public:
  explicit budget_hold(byte_budget& budget) noexcept : budget_(budget) {}
  ~budget_hold() { budget_.release(held_bytes_); }
  budget_hold(const budget_hold&) = delete;
  budget_hold& operator=(const budget_hold&) = delete;

  // Holds `bytes` in total, at least. False where the budget does not allow it.
  bool grow_to(std::size_t bytes) noexcept {
    if (bytes <= held_bytes_) return true;
    if (!budget_.try_acquire(bytes - held_bytes_)) return false;
    held_bytes_ = bytes;
    return true;
  }

 private:
  byte_budget& budget_;
  std::size_t held_bytes_ = 0;
};

}  // namespace weir::gateway::http
