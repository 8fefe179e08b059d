#include "kernels/parallel.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>

#include "hwy/cache_control.h"

namespace weir::kernels {

namespace {

// Whether `reached` came true within the time that spinning may take.
template <class Reached>
bool spin_until(Reached&& reached) {
  using clock = std::chrono::steady_clock;
  constexpr int k_pauses = 32;  // between looks at the clock
  const auto end = clock::now() + std::chrono::nanoseconds(k_spin_ns);
  do {
    for (int i = 0; i < k_pauses; ++i) {
      if (reached()) return true;
      hwy::Pause();
    }
  } while (clock::now() < end);
  return reached();
}

}  // namespace

thread_pool::thread_pool(int thread_count) {
  assert(thread_count >= 1 && thread_count <= k_compute_threads_max);
  threads_.reserve(static_cast<std::size_t>(thread_count - 1));
  for (int worker = 1; worker < thread_count; ++worker) {
    threads_.emplace_back(&thread_pool::work_loop, this, worker);
  }
}

thread_pool::~thread_pool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void thread_pool::run_erased(std::int64_t count, std::int64_t grain, void* target, erased_body body) {
  if (count <= 0) return;
  // Eight chunks per thread even out unequal work without much contention on the counter.
  constexpr std::int64_t k_chunks_per_thread = 8;
  const std::int64_t spread = count / (thread_count() * k_chunks_per_thread);
  const std::int64_t chunk = std::max<std::int64_t>({grain, spread, 1});
  if (threads_.empty() || chunk >= count) {
    body(target, 0, count, 0);
    return;
  }
  count_ = count;
  chunk_ = chunk;
  target_ = target;
  body_ = body;
  next_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  // Sequentially consistent, as is a worker's entry among the sleepers: either it sees the job or we see it
  // asleep. The same holds for the caller's sleep and the last worker.
  ++generation_;
  if (sleepers_ > 0) {
    { const std::lock_guard lock(mutex_); }
    wake_.notify_all();
  }
  take_chunks(0);
  const auto through = [this] { return busy_ == 0; };
  if (spin_until(through)) return;
  std::unique_lock lock(mutex_);
  caller_sleeps_ = true;
  done_.wait(lock, through);
  caller_sleeps_ = false;
}

void thread_pool::take_chunks(int worker) {
  for (;;) {
    const std::int64_t begin = next_.fetch_add(chunk_, std::memory_order_relaxed);
    if (begin >= count_) return;
    body_(target_, begin, std::min(begin + chunk_, count_), worker);
  }
}

void thread_pool::work_loop(int worker) {
  std::uint64_t seen = 0;
  const auto called = [this, &seen] { return stopping_ || generation_ != seen; };
  for (;;) {
    if (!spin_until(called)) {
      std::unique_lock lock(mutex_);
      ++sleepers_;
      wake_.wait(lock, called);
      --sleepers_;
    }
    if (stopping_) return;
    seen = generation_;
    take_chunks(worker);
    if (--busy_ == 0 && caller_sleeps_) {
      { const std::lock_guard lock(mutex_); }
      done_.notify_one();
    }
  }
}

}  // namespace weir::kernels
