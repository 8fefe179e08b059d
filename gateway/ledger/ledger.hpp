// The gateway's memory of what must survive anything: keys, tenants, and money spent per key. One RocksDB
// database, one commit thread; a batch of everything that waits is one fsync.
//
// A budget is spent in two steps. reserve() counts the most that a request can cost, in memory at once, so
// that parallel requests can never pass together; when `ok` is called the reservation is on the disk and the
// request may go out. settle() replaces it by the real cost. A run that dies in between leaves the
// reservation open; the next open() charges it as reserved and reports it: money may be counted that was not
// spent, never the other way round.
//
// Invariants (checked by open(), which refuses a ledger that breaks one):
//  - every reservation id up to the last is open or ended, exactly once;
//  - acknowledged <= recovered <= issued: nothing that was acknowledged is ever lost, and what was reported
//  as
//    a fault may at worst be found charged after a crash;
//  - the totals equal the sum over the accounts, a month the sum of its days;
//  - a window's label never goes back, over restarts too, and follows no jump of the wall clock while
//  running.
//
// Money is int64 nano-USD and saturates. FORMAT.md fixes the bytes and the upgrade rule.
//
// Threads: open() and the destructor block; everything else on any thread, returns at once (short mutex, no
// disk). Callbacks may call the ledger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/ledger/traffic.hpp"
#include "gateway/ledger/types.hpp"

namespace rocksdb {
class Env;
}

namespace weir::gateway::ledger {

struct settings {
  std::filesystem::path folder;  // made with mode 0700
  std::size_t queue_max = k_queue_max;
  std::size_t reservations_open_max = k_reservations_open_max;
  std::size_t write_buffer_bytes = std::size_t{16} << 20;  // two at most, in memory
  // How long a settlement waits for a reservation to share its fsync with.
  std::int64_t settle_linger_ms = 20;
  std::int64_t full_disk_retry_ms = 250;  // doubles up to 16 times that
  // How long pairs wait for a batch of others to ride on.
  std::int64_t pair_linger_ms = 1000;
  // For tests: time and file system. Empty or null: the system's.
  std::function<std::int64_t()> wall_s;  // Unix time
  std::function<std::int64_t()> boot_s;  // CLOCK_BOOTTIME: goes on while the machine sleeps
  rocksdb::Env* env = nullptr;
};

class ledger final {
 public:
  // Makes a ledger where there is none. Never repairs: an error names the folder and says what to do, and is
  // final. Another process (or ledger) has it open; it is damaged; a part of it is missing; its format is
  // foreign.
  static std::expected<std::unique_ptr<ledger>, std::string> open(settings);

  // Commits what waits, calls what was not called, then closes.
  ~ledger();
  ledger(const ledger&) = delete;
  ledger& operator=(const ledger&) = delete;

  // Keys and tenants. An error at once: `committed` is not called. Otherwise the record is in keys() when
  // `committed` reports success; `invalid` then means that the key there is revoked, which is final.
  std::expected<void, fault> put(auth::key_record, done committed);
  std::expected<void, fault> put(auth::tenant_record, done committed);
  // What its account spent stays; that it was revoked is forgotten, so its id must never be issued again.
  // Erasing what is not there succeeds.
  std::expected<void, fault> erase_key(std::string id, done committed);
  std::vector<auth::key_record> keys() const;        // by id
  std::vector<auth::tenant_record> tenants() const;  // by name

  // Counts `amount` (>= 0) as reserved against the account's day and month if both limits have room. A
  // refusal: `ok` is not called. `ok` with success: durable, go ahead. `ok` with a fault: as if never
  // reserved, do not go ahead; the id is dead.
  std::expected<reservation_id, refusal> reserve(const std::string& account, const auth::key_limits&,
                                                 usd_nano amount, std::string_view request_id, done ok);

  // Ends a reservation, in the day and month in which it was made: in memory at once, on the disk with a
  // later batch (`committed`, if given, is told). Twice, or of an unknown id: no effect, and success. More
  // than was reserved counts in full, as overrun; a negative `actual` counts as what was reserved. Never
  // refused: a full disk keeps it waiting.
  void settle(reservation_id, usd_nano actual, done committed = {});

  // Keeps a pair, which nobody waits for: it rides on a batch of others within pair_linger_ms. `overloaded`
  // when too many wait, any other fault as above: it is dropped, and counted.
  std::expected<void, fault> add(policy::comparison::pair);
  // Those on the disk, from the first behind `after` on (nothing: from the oldest), at most `count`.
  std::vector<stored_pair> pairs(std::optional<std::uint64_t> after, std::size_t count) const;
  void keep_pairs(const pair_retention&);
  // All pairs of a ledger that no gateway has open; changes nothing. Blocks. The error says what to do.
  static std::expected<std::vector<stored_pair>, std::string> read_pairs(const std::filesystem::path& folder);

  spend spent(const std::string& account) const;
  std::int32_t today() const;                 // days since 1970-01-01 of the window that reserve() takes
  std::vector<std::string> accounts() const;  // that ever spent or reserved something
  // Letters and digits, the same for as long as the folder is.
  const std::string& identity() const noexcept;
  spend_history history(const std::string& account) const;

  // Adds to the counts of this hour, in memory at once, on the disk with a later batch. False, and nothing is
  // added: the disk is full or failed, or too much waits; the caller keeps the rows and tries again.
  bool add_traffic(const std::vector<traffic_row>& rows);
  traffic_summary traffic(std::string_view model, std::int64_t since_s) const;  // as ledger::summarize()

  const recovery& recovered() const noexcept;        // by this open()
  std::vector<charged_reservation> charged() const;  // the last k_charged_kept over all runs, newest first
  health_report health() const;
  ledger_counters count() const;

 private:
  struct impl;
  explicit ledger(std::unique_ptr<impl>);
  std::unique_ptr<impl> impl_;
};

}  // namespace weir::gateway::ledger
