#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/ledger/book.hpp"

namespace weir::gateway::ledger {

namespace {

constexpr std::int64_t k_day_s = 86'400;

using contradiction = std::optional<std::string>;

usd_nano sum_of_days(const account_book& account, month_number month) {
  usd_nano sum = 0;
  for (const auto& day : account.days.all()) {
    if (month_of(day.label) == month) sum = add_saturating(sum, day.spent);
  }
  return sum;
}

// `all_days_from`: no day from there on has been dropped.
contradiction check_windows(const std::string& name, const account_book& account, day_number all_days_from) {
  usd_nano in_months = 0;
  for (const auto& month : account.months.all()) {
    in_months = add_saturating(in_months, month.spent);
    const auto in_days = sum_of_days(account, month.label);
    const bool has_all_days = first_day_of(month.label) >= all_days_from;
    if (in_days > month.spent || (has_all_days && in_days != month.spent)) {
      return fmt::format("account {}: the days of {} sum to {}, the month says {}", name,
                         month_label(month.label), in_days, month.spent);
    }
  }
  if (in_months > account.sums.spent) {
    return fmt::format("account {}: its months sum to {}, but it spent {} ever", name, in_months,
                       account.sums.spent);
  }
  for (const auto& day : account.days.all()) {
    if (day.spent > account.months.get(month_of(day.label)).spent) {
      return fmt::format("account {}: {} has more than its month", name, day_label(day.label));
    }
  }
  return std::nullopt;
}

}  // namespace

void book::restore(const stored_account& stored) {
  accounts_[stored.account].sums = stored.record;
}

void book::restore(const stored_window& stored) {
  auto& account = accounts_[stored.account];
  (stored.unit == window_unit::day ? account.days : account.months).at(stored.label).spent = stored.spent;
}

void book::restore(stored_reservation stored) {
  auto& account = accounts_[stored.record.account];
  account.days.at(stored.record.day).reserved += stored.record.amount;
  account.months.at(stored.record.month).reserved += stored.record.amount;
  open_.emplace(stored.id, std::make_shared<const reservation_record>(std::move(stored.record)));
}

std::optional<std::string> book::find_contradiction() const {
  const auto ended = state_.settled + state_.charged + state_.voided;
  if (open_.size() + ended != state_.next_id - 1) {
    return fmt::format("{} reservations were made, {} are open and {} ended", state_.next_id - 1,
                       open_.size(), ended);
  }
  std::unordered_map<std::string, std::uint64_t> open_of;
  for (const auto& [id, reservation] : open_) {
    ++open_of[reservation->account];
    if (id >= state_.next_id || month_of(reservation->day) != reservation->month) {
      return fmt::format("reservation {} contradicts itself or is beyond the last, {}", id,
                         state_.next_id - 1);
    }
  }
  const auto all_days_from = static_cast<day_number>(state_.clock_s / k_day_s - k_days_kept);
  usd_nano spent = 0;
  for (const auto& [name, account] : accounts_) {
    spent = add_saturating(spent, account.sums.spent);
    const auto open = account.sums.reservations - account.sums.ended;
    if (open != open_of[name]) {
      return fmt::format("account {}: {} reservations should be open, {} are", name, open, open_of[name]);
    }
    if (auto wrong = check_windows(name, account, all_days_from)) return wrong;
  }
  if (spent != state_.spent) {
    return fmt::format("the accounts spent {} in sum, the total says {}", spent, state_.spent);
  }
  return std::nullopt;
}

}  // namespace weir::gateway::ledger
