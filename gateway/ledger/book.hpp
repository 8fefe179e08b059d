// Who spent and reserved how much in which window, in memory. The ledger keeps two: one that is ahead of the
// disk and decides, and one that is exactly what the disk holds. Pure: no clock, no files, no locks.
//
// Not thread-safe: one thread, or an external lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "gateway/ledger/money.hpp"
#include "gateway/ledger/records.hpp"

namespace weir::gateway::ledger {

struct window_sum {
  std::int32_t label = 0;  // day_number or month_number
  usd_nano spent = 0;
  wide_nano reserved = 0;
};

// One account's windows of one unit, by label; a window appears when money first touches it.
class window_list final {
 public:
  window_sum& at(std::int32_t label);
  window_sum* find(std::int32_t label);
  window_sum get(std::int32_t label) const;  // zeros when there is none
  // Windows of before `oldest` go; their labels. Those in which something is reserved stay.
  std::vector<std::int32_t> drop_before(std::int32_t oldest);
  std::span<const window_sum> all() const { return windows_; }

 private:
  std::vector<window_sum> windows_;
};

struct account_book {
  account_record sums;
  window_list days, months;
};

enum class ending : std::uint8_t { settled, charged, voided };

using reservation_ref = std::shared_ptr<const reservation_record>;

struct dropped_window {
  std::string account;
  window_unit unit;
  std::int32_t label;
};

class book final {
 public:
  // Nothing: both budgets have room for it. REQUIRES: amount >= 0.
  std::optional<exhausted> check(const std::string& account, const auth::key_limits&, usd_nano amount,
                                 const moment&) const;

  // Takes the next id. REQUIRES: amount >= 0.
  reservation_id reserve(reservation_ref);
  // The next id was never stored.
  void skip_id();
  // Ends it; the money goes to the windows in which it was reserved. What it was, or null: no such open
  // reservation. REQUIRES: actual >= 0, and 0 for voided.
  reservation_ref end(reservation_id, usd_nano actual, ending);
  // Takes back what settle() counted for a reservation that turned out never to have been stored.
  void take_back(const reservation_record&, usd_nano actual);

  // Windows older than k_days_kept and k_months_kept.
  std::vector<dropped_window> drop_old(const moment&);

  // From stored records, in any order; then find_contradiction().
  void restore(const stored_account&);
  void restore(const stored_window&);
  void restore(stored_reservation);
  // What does not add up, in words; nothing: all does.
  std::optional<std::string> find_contradiction() const;

  const account_book* find(const std::string& account) const;
  const std::unordered_map<std::string, account_book>& accounts() const noexcept { return accounts_; }
  const std::unordered_map<reservation_id, reservation_ref>& open() const noexcept { return open_; }
  state_record& state() noexcept { return state_; }
  const state_record& state() const noexcept { return state_; }

 private:
  void count_end(account_book&, usd_nano actual, ending);

  state_record state_;
  std::unordered_map<std::string, account_book> accounts_;
  std::unordered_map<reservation_id, reservation_ref> open_;
};

}  // namespace weir::gateway::ledger
