// A fork-join pool: splits an index range over a fixed number of threads, the caller being one of them.
//
// Invariants: run() returns after every index was handed out once and finished; ranges are disjoint.
// Threads: run() from one thread at a time (the engine's worker); the body runs on all of them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace weir::kernels {

inline constexpr int k_compute_threads_max = 256;

class thread_pool final {
 public:
  // REQUIRES: 1 <= thread_count <= k_compute_threads_max; 1 means that run() stays on the caller.
  explicit thread_pool(int thread_count);
  ~thread_pool();
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;

  int thread_count() const noexcept { return static_cast<int>(threads_.size()) + 1; }

  // Calls body(begin, end, worker) over [0, count) in chunks of at least `grain` indices; worker <
  // thread_count(). Runs inline when there is only one chunk. The body must not throw.
  template <class Body>
  void run(std::int64_t count, std::int64_t grain, Body&& body) {
    using body_type = std::remove_reference_t<Body>;
    run_erased(count, grain, const_cast<std::remove_const_t<body_type>*>(&body),
               [](void* target, std::int64_t begin, std::int64_t end, int worker) {
                 (*static_cast<body_type*>(target))(begin, end, worker);
               });
  }

 private:
  using erased_body = void (*)(void*, std::int64_t begin, std::int64_t end, int worker);

  void run_erased(std::int64_t count, std::int64_t grain, void* target, erased_body body);
  void work_loop(int worker);
  void take_chunks(int worker);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::uint64_t generation_ = 0;  // guarded by mutex_, as are busy_ and stopping_
  int busy_ = 0;
  bool stopping_ = false;
  std::atomic<std::int64_t> next_{0};
  std::int64_t count_ = 0;  // the job: written under mutex_ before the generation changes
  std::int64_t chunk_ = 1;
  void* target_ = nullptr;
  erased_body body_ = nullptr;
  std::vector<std::thread> threads_;
};

}  // namespace weir::kernels
