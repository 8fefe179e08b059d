// Changes keys and tenants at run time, one change after another: each is made from what the one before it
// left, so that no update is lost, and is in force when it is answered. A client that leaves meanwhile
// changes nothing about that.
//
// Thread rule: submit() from any thread; plans and answers run on the writer's own thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <variant>

#include "gateway/auth/key_ring.hpp"
#include "gateway/errc.hpp"
#include "gateway/ledger/ledger.hpp"

namespace weir::gateway::limits {

struct erased_key {
  std::string id;
};
using key_change = std::variant<auth::key_record, auth::tenant_record, erased_key>;

inline constexpr std::size_t k_changes_waiting_max = 1024;
inline constexpr std::chrono::milliseconds k_change_wait{5000};  // later it is dropped, if it has not begun

class key_writer final {
 public:
  // The record to write, made from what is there now; an error changes nothing. May claim() in the ring.
  using plan = std::move_only_function<result<key_change>()>;
  // Success: durable, and the ring knows it.
  using answer = std::move_only_function<void(result<key_change>)>;

  // Both outlive the writer.
  key_writer(auth::key_ring& ring, ledger::ledger& money);
  ~key_writer();  // ends the change under way, refuses those that wait
  key_writer(const key_writer&) = delete;
  key_writer& operator=(const key_writer&) = delete;

  // Calls `done` once, here where too many changes wait.
  void submit(plan make, answer done);

 private:
  struct job {
    plan make;
    answer done;
    std::chrono::steady_clock::time_point begin_by;
  };

  void run();
  result<key_change> carry_out(job& next);
  std::expected<void, ledger::fault> commit(const key_change& change);

  auth::key_ring& ring_;
  ledger::ledger& money_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<job> jobs_;   // under mutex_
  bool stopping_ = false;  // under mutex_
  std::thread thread_;
};

// Why the ledger did not take something, for a client.
error to_error(ledger::fault why);

}  // namespace weir::gateway::limits
