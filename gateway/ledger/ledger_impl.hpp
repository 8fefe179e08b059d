// What the ledger's callers and its commit thread share.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gateway/ledger/journal.hpp"
#include "gateway/ledger/label_clock.hpp"
#include "gateway/ledger/ledger.hpp"
#include "gateway/ledger/store.hpp"

namespace weir::gateway::ledger {

// Settlements that nobody waits for; so many are worth an fsync of their own.
inline constexpr std::size_t k_settlements_lingering_max = 1024;

// Callbacks with what they are told, to be called without the lock.
class answers final {
 public:
  void add(done callback, std::expected<void, fault> outcome) {
    if (callback) waiting_.emplace_back(std::move(callback), outcome);
  }
  void call() {
    for (auto& [callback, outcome] : std::exchange(waiting_, {})) callback(outcome);
  }

 private:
  std::vector<std::pair<done, std::expected<void, fault>>> waiting_;
};

struct ledger::impl {
  using clock = std::chrono::steady_clock;

  impl(settings, std::unique_ptr<store>, contents on_disk, label_clock, recovery);
  ~impl();

  // Callers' side; `mutex` held. `counted`: against queue_max.
  std::expected<void, fault> admit() const;
  void enqueue(operation, bool counted, bool urgent);

  // Takes the lock itself: what somebody waits for and nothing in memory depends on.
  std::expected<void, fault> submit(operation);

  // Commit thread's side.
  void run();
  bool take();  // moves the queue into `retained`; false: told to stop
  void wait_for_work(std::unique_lock<std::mutex>&);
  void take_pairs();  // `mutex` held
  void commit();
  void publish(std::size_t operations, clock::duration took);
  void publish_records(const operation&);
  void fail(const store_error&);
  void answer_all(fault);
  bool reopen();

  settings options;
  std::unique_ptr<store> disk;
  label_clock labels;
  recovery found;
  const std::string identity;

  mutable std::mutex mutex;
  std::condition_variable wake;
  book live;  // ahead of the disk
  std::vector<operation> queue;
  std::size_t counted = 0;  // in the queue, against queue_max
  bool urgent = false;      // somebody waits for what is in the queue
  clock::time_point oldest{};
  bool stopping = false;
  std::deque<std::shared_ptr<const policy::comparison::pair>> pairs_waiting;
  clock::time_point pairs_due{};  // of the oldest of them
  pair_retention pairs_kept;
  key_table keys;  // as committed
  tenant_table tenants;
  std::deque<stored_pair> pairs;
  std::vector<charged_reservation> charged;  // newest first; as open() left it
  health_report state;
  ledger_counters counts;
  day_number swept = -1;

  // Never behind `mutex`: whoever adds holds it while the operation is put into the queue, so that a row's
  // later state is written later.
  mutable std::mutex traffic_mutex;
  traffic_sum traffic;

  // Commit thread only.
  journal durable;
  std::vector<operation> retained;  // taken from the queue and not yet committed
  std::int64_t retry_ms = 0;        // > 0: the disk is full

  std::thread thread;  // last: sees everything above made
};

}  // namespace weir::gateway::ledger
