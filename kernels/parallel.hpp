// A fork-join pool: splits an index range over a fixed number of threads, the caller being one of them.
//
// Between jobs a thread looks for the next one for k_spin_ns before it sleeps: the operations of a layer
// follow each other faster than a sleeping thread is woken. A pool at rest takes no processor time.
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
inline constexpr std::int64_t k_spin_ns = 200'000;  // a few times what waking a thread takes

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

  std::mutex mutex_;                          // around sleeping and waking alone
  std::condition_variable wake_;              // workers: a new job, or the end
  std::condition_variable done_;              // the caller: all workers are through
  std::atomic<std::uint64_t> generation_{0};  // of jobs; publishes the job's description
  std::atomic<int> busy_{0};                  // workers that are not yet through with the job
  std::atomic<int> sleepers_{0};              // workers that must be woken
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<std::int64_t> next_{0};
  std::int64_t count_ = 0;  // the job, written before the generation changes
  std::int64_t chunk_ = 1;
  void* target_ = nullptr;
  erased_body body_ = nullptr;
  std::vector<std::thread> threads_;
};

}  // namespace weir::kernels
