// A lock for some hundred nanoseconds of work that mostly nobody else wants: one atomic exchange to take it,
// one plain store to leave it, so that the cache misses of two such works may overlap. Whoever finds it taken
// gives up the processor. Internal to the folder; for std::lock_guard and std::unique_lock.
#pragma once

#include <atomic>
#include <thread>

namespace weir::prefix_index {

class spin_lock final {
 public:
  void lock() {
    while (taken_.exchange(true, std::memory_order_acquire)) {
      while (taken_.load(std::memory_order_relaxed)) std::this_thread::yield();
    }
  }
  void unlock() { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_ = false;
};

}  // namespace weir::prefix_index
