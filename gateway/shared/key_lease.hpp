// What the store has granted this gateway of one key's limits, and who waits for more. One per key id, for as
// long as the process knows the key.
//
// Requests take of it (enter, take_tokens, reserve); the hub's thread asks the store for it (next_order,
// apply). An order holds everything that is to be said of the key, so that one command serves all who wait.
//
// Budgets. Per window and gateway the store keeps a claim; the claims of all gateways never exceed the limit.
// The gateway's ledger stays the durable record and the only counter: reserve() hands it the claim instead of
// the limit, so that what it has spent and reserved stays within the claim, nothing is counted twice, and a
// settlement frees room here at once. The claim is held under this lock while the ledger is asked, because it
// may be lowered. Windows are those of the ledger; a ledger whose day is not the store's (by more than
// k_clock_tolerance_s) gets no claims.
//
// Threads: any; one mutex, held for a few additions and, in reserve() and next_order(), for the ledger's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gateway/auth/key_terms.hpp"
#include "gateway/ledger/ledger.hpp"
#include "policy/limits/lease.hpp"

namespace weir::gateway::shared {

inline constexpr std::int64_t k_clock_tolerance_s = 60;

using policy::limits::usd_nano;

// True: ask again, the store has answered. False: it does not. Told at most once, under no lock of ours.
using store_answered = std::function<void(bool)>;

// What a request lacks.
struct lack {
  std::int64_t requests = 0;
  std::int64_t tokens = 0;
  std::int64_t slots = 0;
  usd_nano money = 0;
};

struct window_order {
  std::string label;   // empty: nothing to say of this window
  usd_nano limit = 0;  // 0: what was taken is made known, and nothing wanted
  policy::limits::claim_order claim;
  std::string seeds;  // "gateway=amount,...": claims of others as last seen, for a store that starts anew
};

struct key_order {
  std::string key;
  auth::key_limits limits;
  policy::limits::rate_order requests, tokens;
  policy::limits::slot_order slots;
  window_order day, month;
};

struct window_grant {
  usd_nano claim = 0;
  usd_nano total = 0;
  std::string claims;  // of all gateways, as seeds
};

struct key_grant {
  std::int64_t store_us = 0;  // Unix time there
  std::int64_t grace_ms = 0;  // > 0: the store started anew; until all gateways were heard it gives no money
  policy::limits::rate_grant requests, tokens;
  std::int64_t slots = 0, slots_free = 0;
  window_grant day, month;
};

enum class refused_by : std::uint8_t { none, requests, slots, tokens };

class key_lease final {
 public:
  key_lease(std::string id, std::int64_t lease_ms);

  const std::string& id() const noexcept { return id_; }

  struct verdict {
    policy::limits::lease_answer answer = policy::limits::lease_answer::ask;
    refused_by by = refused_by::none;
    std::int64_t retry_ns = 0;
    policy::limits::lease_units got;
    bool is_low = false;  // granted, and the next ones would have to wait: fetch ahead
  };
  // One more request, and a slot for it: both or none.
  verdict enter(const auth::key_limits&, std::int64_t now_ns);
  void leave();
  verdict take_tokens(const auth::key_limits&, std::int64_t units, std::int64_t now_ns);
  void settle_tokens(const policy::limits::lease_units& got, std::int64_t used, std::int64_t now_ns);

  struct reserved {
    ledger::reservation_id id = 0;
    bool is_low = false;
  };
  struct ask {};
  struct away {
    std::int64_t retry_ms = 0;
  };
  using money_verdict = std::variant<reserved, ask, away, ledger::exhausted, ledger::fault>;
  money_verdict reserve(ledger::ledger& money, const auth::key_limits&, usd_nano amount,
                        std::string_view request_id, ledger::done ok, std::int64_t now_ns);

  // A reservation ended: what of its claim is left may go back.
  void settled();

  policy::limits::level look_requests(const auth::key_limits&, std::int64_t now_ns) const;
  policy::limits::level look_tokens(const auth::key_limits&, std::int64_t now_ns) const;

  void wait(store_answered tell, const lack& what);
  void wake_all(bool answered);

  // The hub's thread, at every heartbeat and for who waits. `money`: null where there is no ledger.
  bool has_news(std::int64_t now_ns);
  key_order next_order(ledger::ledger* money, std::int64_t now_ns);
  void apply(const key_order&, const key_grant&, std::int64_t sent_ns, std::int64_t now_ns);
  void lost();
  // The store obeys orders of other keys, but refuses or garbles those of this one: until then nobody waits
  // for it.
  void set_away(std::int64_t until_ns) noexcept { away_until_ns_.store(until_ns, std::memory_order_relaxed); }
  bool is_away(std::int64_t now_ns) const noexcept {
    return now_ns < away_until_ns_.load(std::memory_order_relaxed);
  }
  // The store starts anew: the next order repeats what it knew.
  void store_is_new();
  // The next order gives everything back.
  void end();
  bool holds_any(std::int64_t now_ns) const;

  // Whether it has to be put into the hub's queue: it stands there once.
  bool enqueue() noexcept { return !queued_.exchange(true, std::memory_order_acq_rel); }
  void dequeue() noexcept { queued_.store(false, std::memory_order_release); }

 private:
  struct window {
    explicit window(std::int64_t lease_ns) : lease(lease_ns) {}
    policy::limits::claim_lease lease;
    std::string label;
    std::string claims;  // of all gateways, as last heard
  };
  struct waiter {
    store_answered tell;
    lack what;
  };
  struct lacks {
    lack least, sum;
  };

  lacks all_lacks() const;
  window_order order_of(window& w, const ledger::window_spend& spent, usd_nano limit, const lacks& waiting,
                        std::int64_t now_ns);
  money_verdict without_room(const ledger::exhausted& e, const auth::key_limits& limits, usd_nano amount,
                             std::int64_t now_ns) const;
  bool needs_claim(std::int64_t now_ns) const;

  const std::string id_;
  const std::int64_t lease_ns_;
  std::atomic<bool> queued_ = false;
  std::atomic<std::int64_t> away_until_ns_ = 0;
  mutable std::mutex mutex_;  // guards everything below
  auth::key_limits limits_;   // as the last request had them
  policy::limits::rate_lease requests_, tokens_;
  policy::limits::slot_lease slots_;
  window day_, month_;
  bool new_store_ = false;
  bool is_wrong_day_ = false;
  bool ending_ = false;
  bool settled_ = false;
  std::int64_t no_money_until_ns_ = 0;
  std::int64_t beat_ns_ = 0;  // of the last order
  std::vector<waiter> waiting_;
};

using key_ref = std::shared_ptr<key_lease>;

}  // namespace weir::gateway::shared
