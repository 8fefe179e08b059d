// What the ledger takes and gives: plain values, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "gateway/auth/key_terms.hpp"
#include "policy/comparison/pair.hpp"

namespace weir::gateway::ledger {

using policy::limits::usd_nano;

// Waiting reserves and puts: at 29,600 per second they wait half a second; 16 MiB. Settlements are not
// counted: each belongs to an open reservation.
inline constexpr std::size_t k_queue_max = 16'384;
// Beyond what one gateway can have in flight; what a crash leaves open is closed in one batch of 64 MiB.
inline constexpr std::size_t k_reservations_open_max = 262'144;
inline constexpr std::size_t k_account_bytes_max = 256;
inline constexpr std::size_t k_request_id_bytes_max = 128;  // longer ones are cut
inline constexpr std::size_t k_charged_kept = 1000;         // of charged(), over all runs
inline constexpr std::int64_t k_days_kept = 62;
inline constexpr std::size_t k_pairs_waiting_max = 1024;  // beyond it pairs are dropped; 5 MiB
inline constexpr std::size_t k_pairs_per_batch = 256;     // what they may add to what others wait for
inline constexpr std::size_t k_pairs_kept_max = 100'000;  // in memory too
inline constexpr std::size_t k_excerpt_bytes_max = 2048;  // of one answer of a pair
inline constexpr std::int64_t k_months_kept = 13;

// Why something was not written. Every fault but `invalid` fails closed: what needs the ledger is refused.
enum class fault : std::uint8_t {
  overloaded,  // the queue or the table of open reservations is full: shed, try again later
  full_disk,   // no space: retried by the ledger itself, recovers without a restart; nothing is lost
  failed,      // fsync error, lost or damaged data: final until restart, nothing is acknowledged any more
  stopped,     // the ledger is being destroyed
  invalid,     // the caller's: a negative amount, a record beyond FORMAT.md's limits, reviving a revoked key
};
const char* describe(fault) noexcept;

// Called once, on the commit thread, without a lock held; must not block and must not throw. Success: the
// bytes are on the disk.
using done = std::move_only_function<void(std::expected<void, fault>)>;
// The same, for who may have to ask more than once; still told at most once.
using copyable_done = std::function<void(std::expected<void, fault>)>;

// Never reused and dense: 1, 2, 3, ... over all runs of one ledger, so that a lost one is noticed.
using reservation_id = std::uint64_t;

struct window_spend {
  std::string label;  // "2026-11-30" or "2026-11", UTC
  usd_nano spent = 0;
  usd_nano reserved = 0;
  std::int64_t resets_in_s = 0;  // > 0, true to the second

  friend bool operator==(const window_spend&, const window_spend&) = default;
};

struct spend {
  window_spend day, month;
};

// A window of the past or the present. Kept for k_days_kept days and k_months_kept months.
struct past_window {
  std::string label;
  usd_nano spent = 0;

  friend bool operator==(const past_window&, const past_window&) = default;
};

struct spend_history {
  std::vector<past_window> days, months;  // oldest first; only those in which something was spent
  usd_nano spent = 0;                     // ever
};

// A budget has no room. When several are exhausted: one that never fits, else the one that resets last.
struct exhausted {
  bool month = false;  // else the day
  usd_nano limit = 0, spent = 0, reserved = 0, wanted = 0;
  std::int64_t resets_in_s = 0;
  bool never_fits = false;  // wanted > limit: no window will ever have room

  friend bool operator==(const exhausted&, const exhausted&) = default;
};

using refusal = std::variant<exhausted, fault>;

struct account_charge {
  std::string account;
  std::uint64_t reservations = 0;
  usd_nano charged = 0;

  friend bool operator==(const account_charge&, const account_charge&) = default;
};

// What open() found left over by a run that did not end by itself.
struct recovery {
  std::uint64_t reservations_charged = 0;  // open when that run ended, now charged as reserved and closed
  usd_nano charged = 0;
  std::vector<account_charge> accounts;  // by name
  std::int64_t clock_behind_s = 0;       // > 0: the wall clock is behind the last use; windows wait for it
};

// A reservation that was charged because its end was never heard of.
struct charged_reservation {
  reservation_id id = 0;
  std::string account;
  std::string request_id;
  usd_nano amount = 0;
  std::int64_t reserved_at_s = 0;  // Unix time
  std::int64_t charged_at_s = 0;

  friend bool operator==(const charged_reservation&, const charged_reservation&) = default;
};

// Two answers to one request: the one that went out, and that of a shadow target.
struct stored_pair {
  std::uint64_t place = 0;  // ascending, the oldest first
  std::shared_ptr<const policy::comparison::pair> record;
};

// Pairs beyond either are deleted, the oldest first.
struct pair_retention {
  std::size_t count = 20'000;  // at most k_pairs_kept_max
  std::int64_t days = 30;

  friend bool operator==(const pair_retention&, const pair_retention&) = default;
};

struct health_report {
  std::optional<fault> reason;  // full_disk or failed; nothing: all is well
  std::string detail;           // names the folder and what to do
};

struct ledger_counters {
  std::uint64_t commits = 0;     // batches, one fsync each
  std::uint64_t operations = 0;  // in them
  std::uint64_t reservations_open = 0;
  std::uint64_t operations_waiting = 0;
  std::uint64_t refused_budget = 0;
  std::uint64_t overruns = 0;       // settled above what was reserved
  usd_nano overrun = 0;             // by how much, in sum
  std::uint64_t pairs = 0;          // kept
  std::uint64_t pairs_dropped = 0;  // too many waited, or the disk did not take them
  std::uint64_t full_disk = 0;      // times that the disk was found full
  std::int64_t last_commit_us = 0;
};

}  // namespace weir::gateway::ledger
