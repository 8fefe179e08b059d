// Runs copies: on the I/O thread of the request that each is a copy of, as tasks of a group of that thread,
// with one worker thread for what takes long (redaction, comparison). Copies end at once when told: nothing
// waits for one, at shutdown either.
//
// Threads: any, but where said. Outlives the I/O threads' contexts.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <mutex>
#include <vector>

#include "gateway/task.hpp"

namespace weir::gateway::ledger {
class ledger;
}

namespace weir::gateway::shadow {

struct copy_job;
class local_copies;

class hub final {
 public:
  hub() = default;
  ~hub();
  hub(const hub&) = delete;
  hub& operator=(const hub&) = delete;

  // Where pairs are kept. Before the first copy; outlives the last.
  void keep_in(ledger::ledger* pairs) noexcept { pairs_ = pairs; }
  ledger::ledger* pairs() const noexcept { return pairs_; }

  // On the I/O thread of `executor`.
  void begin(const io_executor& executor, std::unique_ptr<copy_job> job);

  // Ends all copies; none begins any more.
  void cut();
  bool is_cut() const noexcept { return cut_.load(std::memory_order_relaxed); }
  // Behind the end of the I/O threads, before their contexts end.
  void close();

  asio::thread_pool& workers();

 private:
  friend class local_copies;
  void attach(local_copies* of);
  void detach(local_copies* of);

  ledger::ledger* pairs_ = nullptr;
  std::atomic<bool> cut_ = false;
  std::mutex mutex_;
  std::vector<local_copies*> locals_;           // under mutex_
  std::unique_ptr<asio::thread_pool> workers_;  // likewise
};

}  // namespace weir::gateway::shadow
