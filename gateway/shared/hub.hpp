// The gateway's side of limits and budgets that several gateways share through Redis or Valkey. One thread
// with one connection asks for leases (key_lease.hpp) and gives them back; requests take of the leases and
// meet this thread only where none is left.
//
// When the store does not answer, nothing waits for it: the first failure (an error, no reply within
// timeout_ms) turns up() off and wakes everybody; it is turned on when a hello and a probe, an order of a key
// that nobody has, were obeyed. What is leased is used up meanwhile, then rates follow the configuration and
// budgets are refused. A store that obeys the probe and refuses the order of a key has something wrong under
// that key: the key alone is away then, for a moment.
//
// One log line per change of state; a store that fails again before it has been of use has not changed its
// state. No secret is in any.
//
// Threads: any; start() and stop() the main thread, before and after traffic. The ledger outlives stop().
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gateway/ledger/ledger.hpp"
#include "gateway/observe/shared_counters.hpp"
#include "gateway/shared/key_lease.hpp"
#include "gateway/shared/store_link.hpp"
#include "gateway/shared/sync_codec.hpp"
#include "gateway/task.hpp"

namespace weir::gateway::shared {

struct hub_settings {
  store_address at;
  std::string user;  // empty: the default one
  std::string password;
  std::int64_t database = 0;
  std::string prefix = "weir:";
  std::int64_t timeout_ms = 100;
  std::int64_t lease_ms = 2000;
  bool refuse_when_down = false;  // requests of keys with rates; else each gateway counts by itself
  std::string gateway;  // letters and digits; the same for as long as its ledger is. Empty: hub makes one
};

class hub final {
 public:
  // `money` may be null: then there are no budgets.
  hub(hub_settings, ledger::ledger* money, observe::shared_counters);
  ~hub();
  hub(const hub&) = delete;
  hub& operator=(const hub&) = delete;

  // Returns when the store answers and gives money, or after k_start_wait: then it goes on trying.
  void start();
  // Gives everything back. No request is left.
  void stop();

  key_ref of(std::string_view key);
  bool up() const noexcept { return up_.load(std::memory_order_relaxed); }
  bool refuses_when_down() const noexcept { return settings_.refuse_when_down; }

  // When one wait of a request is over, however often it asks.
  link_time deadline() const;
  // Until the store has answered for this key; false: it does not, or not by the deadline.
  task<bool> wait(key_ref key, lack what, link_time deadline);
  // Have the next lease fetched before anybody waits for it.
  void nudge(const key_ref& key);

 private:
  using values = std::vector<store_value>;
  struct asked {
    key_ref key;
    key_order order;
  };

  struct refusal {
    key_ref key;
    std::string why;
  };

  void run();
  bool rest();
  bool connect();
  std::expected<void, std::string> hello(const std::string& broken_epoch, link_time by);
  std::vector<key_ref> next_keys(bool all);
  std::expected<void, std::string> sync(const std::vector<key_ref>& keys);
  std::expected<values, std::string> send(const std::vector<asked>& batch);
  std::expected<void, std::string> probe();
  std::expected<void, std::string> set_away(const std::vector<refusal>& refused);
  void was_obeyed(const asked& order, const key_grant& got, std::int64_t sent_ns);
  void count(const key_grant& got, const key_order& order);
  void say_goodbye();
  void go_up();
  void was_of_use();
  void go_down(observe::shared_failure kind, const std::string& why);
  std::vector<key_ref> all_keys() const;

  const hub_settings settings_;
  ledger::ledger* const money_;
  const observe::shared_counters counters_;
  std::atomic<bool> up_ = false;

  mutable std::mutex mutex_;  // guards the next five
  std::condition_variable wake_;
  std::map<std::string, key_ref, std::less<>> keys_;
  std::vector<key_ref> dirty_;
  std::atomic<bool> stopping_ = false;
  bool gives_money_ = false;
  std::condition_variable ready_;

  // The thread's own.
  std::atomic<bool> given_up_ = false;  // the links' waits are over
  std::unique_ptr<store_link> link_;
  sync_context context_;
  std::string digest_;  // of the sync script, as the server has it
  bool said_up_ = false;
  bool said_down_ = false;
  std::chrono::milliseconds backoff_;
  link_time up_since_{};
  std::set<key_ref> away_;  // said to be
  int stale_in_a_row_ = 0;
  link_time next_beat_{};
  link_time money_from_{};
  std::thread thread_;
};

}  // namespace weir::gateway::shared
