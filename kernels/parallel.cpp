#include "kernels/parallel.hpp"

#include <algorithm>
#include <cassert>

namespace weir::kernels {

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
  // Four chunks per thread even out unequal work without much contention on the counter.
  constexpr std::int64_t k_chunks_per_thread = 4;
  const std::int64_t spread = count / (thread_count() * k_chunks_per_thread);
  const std::int64_t chunk = std::max<std::int64_t>({grain, spread, 1});
  if (threads_.empty() || chunk >= count) {
    body(target, 0, count, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    count_ = count;
    chunk_ = chunk;
    target_ = target;
    body_ = body;
    next_.store(0, std::memory_order_relaxed);
    busy_ = static_cast<int>(threads_.size());
    ++generation_;
  }
  wake_.notify_all();
  take_chunks(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
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
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this, seen] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
    }
    take_chunks(worker);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace weir::kernels
