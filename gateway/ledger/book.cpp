#include "gateway/ledger/book.hpp"

#include <algorithm>
#include <utility>

namespace weir::gateway::ledger {

namespace {

auto place_of(auto& windows, std::int32_t label) {
  return std::lower_bound(windows.begin(), windows.end(), label,
                          [](const window_sum& w, std::int32_t l) { return w.label < l; });
}

std::optional<exhausted> check_window(bool month, usd_nano limit, const window_sum& window, usd_nano amount,
                                      std::int64_t resets_in_s) {
  const auto reserved = saturated(window.reserved);
  const auto taken = add_saturating(window.spent, reserved);
  if (limit <= 0 || (taken <= limit && amount <= limit - taken)) return std::nullopt;
  return exhausted{.month = month,
                   .limit = limit,
                   .spent = window.spent,
                   .reserved = reserved,
                   .wanted = amount,
                   .resets_in_s = resets_in_s,
                   .never_fits = amount > limit};
}

void move_to_spent(window_sum& window, usd_nano reserved, usd_nano actual) {
  window.reserved -= reserved;
  window.spent = add_saturating(window.spent, actual);
}

void take_from(window_list& windows, std::int32_t label, usd_nano amount) {
  if (auto* window = windows.find(label)) window->spent = subtract_floored(window->spent, amount);
}

}  // namespace

window_sum& window_list::at(std::int32_t label) {
  const auto place = place_of(windows_, label);
  if (place != windows_.end() && place->label == label) return *place;
  return *windows_.insert(place, window_sum{.label = label});
}

window_sum* window_list::find(std::int32_t label) {
  const auto place = place_of(windows_, label);
  return place != windows_.end() && place->label == label ? &*place : nullptr;
}

window_sum window_list::get(std::int32_t label) const {
  const auto place = place_of(windows_, label);
  return place != windows_.end() && place->label == label ? *place : window_sum{.label = label};
}

std::vector<std::int32_t> window_list::drop_before(std::int32_t oldest) {
  std::vector<std::int32_t> dropped;
  std::erase_if(windows_, [&](const window_sum& w) {
    const bool old = w.label < oldest && w.reserved == 0;
    if (old) dropped.push_back(w.label);
    return old;
  });
  return dropped;
}

std::optional<exhausted> book::check(const std::string& account, const auth::key_limits& limits,
                                     usd_nano amount, const moment& now) const {
  const auto* found = find(account);
  const auto day = found ? found->days.get(now.day) : window_sum{};
  const auto month = found ? found->months.get(now.month) : window_sum{};
  auto by_day = check_window(false, limits.usd_per_day, day, amount, now.day_resets_in_s);
  auto by_month = check_window(true, limits.usd_per_month, month, amount, now.month_resets_in_s);
  if (!by_month || (by_day && by_day->never_fits && !by_month->never_fits)) return by_day;
  return by_month;
}

reservation_id book::reserve(reservation_ref reservation) {
  auto& account = accounts_[reservation->account];
  for (auto* window : {&account.days.at(reservation->day), &account.months.at(reservation->month)}) {
    window->reserved += reservation->amount;
  }
  ++account.sums.reservations;
  const auto id = state_.next_id++;
  open_.emplace(id, std::move(reservation));
  return id;
}

void book::skip_id() {
  ++state_.next_id;
  ++state_.voided;
}

void book::count_end(account_book& account, usd_nano actual, ending how) {
  ++account.sums.ended;
  account.sums.spent = add_saturating(account.sums.spent, actual);
  state_.spent = add_saturating(state_.spent, actual);
  auto& count = how == ending::settled   ? state_.settled
                : how == ending::charged ? state_.charged
                                         : state_.voided;
  ++count;
}

reservation_ref book::end(reservation_id id, usd_nano actual, ending how) {
  const auto at = open_.find(id);
  if (at == open_.end()) return nullptr;
  auto reservation = std::move(at->second);
  open_.erase(at);
  auto& account = accounts_[reservation->account];
  move_to_spent(account.days.at(reservation->day), reservation->amount, actual);
  move_to_spent(account.months.at(reservation->month), reservation->amount, actual);
  count_end(account, actual, how);
  return reservation;
}

void book::take_back(const reservation_record& reservation, usd_nano actual) {
  auto& account = accounts_[reservation.account];
  take_from(account.days, reservation.day, actual);
  take_from(account.months, reservation.month, actual);
  account.sums.spent = subtract_floored(account.sums.spent, actual);
  state_.spent = subtract_floored(state_.spent, actual);
}

std::vector<dropped_window> book::drop_old(const moment& now) {
  const auto oldest_day = static_cast<day_number>(now.day - k_days_kept);
  const auto oldest_month = static_cast<month_number>(now.month - k_months_kept);
  std::vector<dropped_window> dropped;
  for (auto& [name, account] : accounts_) {
    for (const auto label : account.days.drop_before(oldest_day)) {
      dropped.push_back({name, window_unit::day, label});
    }
    for (const auto label : account.months.drop_before(oldest_month)) {
      dropped.push_back({name, window_unit::month, label});
    }
  }
  return dropped;
}

const account_book* book::find(const std::string& account) const {
  const auto at = accounts_.find(account);
  return at == accounts_.end() ? nullptr : &at->second;
}

}  // namespace weir::gateway::ledger
