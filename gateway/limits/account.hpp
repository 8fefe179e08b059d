// What an API key uses right now: the cells of its rates, its running requests. One account per key id, for
// as long as the process knows the key: it outlives reloads, rotations and changes of limits.
//
// Thread rule: any thread; cells are atomics, the list of running requests has a lock held for a few
// pointers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "policy/limits/gcra.hpp"

namespace weir::gateway::limits {

// The clock of the cells.
std::int64_t cell_now_ns() noexcept;

// A request under way, which a revoked key ends.
class running_request {
 public:
  // From any thread, under the account's lock; must return at once.
  virtual void end_soon() noexcept = 0;

  virtual ~running_request() = default;

 private:
  friend class account;
  running_request* before_ = nullptr;
  running_request* behind_ = nullptr;
};

class account final {
 public:
  explicit account(std::string id) : id_(std::move(id)) {}
  account(const account&) = delete;
  account& operator=(const account&) = delete;

  const std::string& id() const noexcept { return id_; }

  policy::limits::gcra_cell requests;
  policy::limits::gcra_cell tokens;

  // One more request at once, unless `most` (0 = any number) run already.
  bool enter(running_request& request, std::int64_t most);
  void leave(running_request& request) noexcept;
  std::int64_t running() const noexcept { return running_.load(std::memory_order_relaxed); }

  // Final: everything that runs ends, and nothing enters any more.
  void revoke() noexcept;
  bool revoked() const noexcept { return revoked_.load(std::memory_order_relaxed); }

 private:
  const std::string id_;
  std::atomic<std::int64_t> running_ = 0;
  std::atomic<bool> revoked_ = false;
  std::mutex mutex_;
  running_request* first_ = nullptr;  // under mutex_
};

class account_table final {
 public:
  // The account of a key; a new one where there is none.
  std::shared_ptr<account> of(std::string_view id);

  // Of a key that is not there any more, but may come back: what runs ends, and rates go on where they were.
  void retire(std::string_view id);

  // Under the table's lock.
  void for_each(const std::function<void(const account&)>& look) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<account>, std::less<>> accounts_;  // under mutex_
};

}  // namespace weir::gateway::limits
