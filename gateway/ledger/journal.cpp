#include "gateway/ledger/journal.hpp"

#include <algorithm>
#include <stdexcept>

namespace weir::gateway::ledger {

namespace {

constexpr std::int64_t k_day_s = 86'400;

}  // namespace

journal::journal(contents on_disk) : now_(std::move(on_disk)) {
  if (!now_.pairs.empty()) next_pair_ = now_.pairs.back().place + 1;
}

void journal::apply(reserve_operation& op) {
  if (op.id != now_.sums.state().next_id) throw std::logic_error("a hole in the reservation ids");
  changes_.push_back(encode(stored_reservation{.id = op.id, .record = *op.reservation}));
  accounts_.insert(op.reservation->account);
  now_.sums.reserve(op.reservation);
}

void journal::apply(settle_operation& op) {
  if (const auto was = now_.sums.end(op.id, op.actual, ending::settled)) ended(op.id, *was);
}

void journal::apply(void_operation& op) {
  if (op.id == now_.sums.state().next_id) {
    now_.sums.skip_id();
  } else if (const auto was = now_.sums.end(op.id, 0, ending::voided)) {
    ended(op.id, *was);
  }
}

void journal::apply(put_key_operation& op) {
  const auto there = now_.keys.find(op.record.id);
  op.refused = there != now_.keys.end() && there->second.revoked && !op.record.revoked;
  if (op.refused) return;
  changes_.push_back(encode(op.record));
  now_.keys.insert_or_assign(op.record.id, op.record);
}

void journal::apply(put_tenant_operation& op) {
  changes_.push_back(encode(op.record));
  now_.tenants.insert_or_assign(op.record.name, op.record);
}

void journal::apply(erase_key_operation& op) {
  if (now_.keys.erase(op.id) != 0) changes_.push_back(erase_key_record(op.id));
}

void journal::apply(traffic_operation& op) {
  for (const auto& row : op.change.written) changes_.push_back(encode(row));
  for (const auto& key : op.change.erased) changes_.push_back(erase_traffic_record(key));
}

void journal::apply(add_pair_operation& op) {
  op.place = next_pair_++;
  const stored_pair stored{.place = op.place, .record = op.record};
  changes_.push_back(encode(stored));
  now_.pairs.push_back(stored);
}

void journal::drop_pairs(const moment& now) {
  auto& pairs = now_.pairs;
  const auto oldest_s = now.label_s - pairs_kept_.days * k_day_s;
  while (!pairs.empty() && (pairs.size() > pairs_kept_.count || pairs.front().record->at_s < oldest_s)) {
    changes_.push_back(erase_pair(pairs.front().place));
    pairs.pop_front();
  }
}

void journal::ended(reservation_id id, const reservation_record& was) {
  changes_.push_back(erase_reservation(id));
  accounts_.insert(was.account);
  days_.emplace(was.account, was.day);
}

std::vector<change> journal::write(std::span<operation> operations, const moment& now) {
  for (auto& any : operations) {
    std::visit([this](auto& op) { apply(op); }, any);
  }
  return finish(now);
}

void journal::append_charge(charged_reservation charge) {
  stored_charge stored{.place = now_.sums.state().next_charge++, .record = std::move(charge)};
  now_.charged.push_back(std::move(stored));
}

std::vector<change> journal::charge_open(const moment& now, recovery& report) {
  std::map<reservation_id, reservation_ref> open(now_.sums.open().begin(), now_.sums.open().end());
  if (open.empty()) return {};
  std::map<std::string, account_charge> by_account;
  const auto first_place = now_.sums.state().next_charge;
  for (const auto& [id, reservation] : open) {
    now_.sums.end(id, reservation->amount, ending::charged);
    ended(id, *reservation);
    append_charge({.id = id,
                   .account = reservation->account,
                   .request_id = reservation->request_id,
                   .amount = reservation->amount,
                   .reserved_at_s = reservation->reserved_at_s,
                   .charged_at_s = now.label_s});
    auto& sum = by_account[reservation->account];
    ++sum.reservations;
    sum.charged = add_saturating(sum.charged, reservation->amount);
    report.charged = add_saturating(report.charged, reservation->amount);
  }
  report.reservations_charged = open.size();
  for (auto& [account, sum] : by_account) {
    sum.account = account;
    report.accounts.push_back(std::move(sum));
  }
  while (now_.charged.size() > k_charged_kept) {
    if (now_.charged.front().place < first_place)
      changes_.push_back(erase_charge(now_.charged.front().place));
    now_.charged.pop_front();
  }
  for (const auto& charge : now_.charged) {
    if (charge.place >= first_place) changes_.push_back(encode(charge));
  }
  return finish(now);
}

void journal::restore_records(const key_table& keys, const tenant_table& tenants) {
  const auto restore = [this](auto& there, const auto& wanted, auto erase) {
    for (const auto& [name, record] : there) {
      if (!wanted.contains(name)) changes_.push_back(erase(name));
    }
    for (const auto& [name, record] : wanted) {
      const auto at = there.find(name);
      if (at == there.end() || at->second != record) changes_.push_back(encode(record));
    }
    there = wanted;
  };
  restore(now_.keys, keys, erase_key_record);
  restore(now_.tenants, tenants, erase_tenant_record);
}

std::vector<change> journal::finish(const moment& now) {
  auto& sums = now_.sums;
  for (const auto& account : accounts_) {
    changes_.push_back(encode(stored_account{.account = account, .record = sums.find(account)->sums}));
  }
  std::set<std::pair<std::string, month_number>> months;
  for (const auto& [account, day] : days_) {
    months.emplace(account, month_of(day));
    const auto spent = sums.find(account)->days.get(day).spent;
    changes_.push_back(encode(stored_window{account, window_unit::day, day, spent}));
  }
  for (const auto& [account, month] : months) {
    const auto spent = sums.find(account)->months.get(month).spent;
    changes_.push_back(encode(stored_window{account, window_unit::month, month, spent}));
  }
  if (now.day != swept_) {
    for (const auto& old : sums.drop_old(now)) {
      changes_.push_back(erase_account_window(old.account, old.unit, old.label));
    }
    swept_ = now.day;
  }
  drop_pairs(now);
  auto& state = sums.state();
  ++state.commit;
  state.clock_s = std::max(state.clock_s, now.label_s);
  changes_.push_back(encode(state));
  accounts_.clear();
  days_.clear();
  return std::exchange(changes_, {});
}

}  // namespace weir::gateway::ledger
