#include "gateway/shared/key_lease.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "gateway/ledger/label_clock.hpp"

namespace weir::gateway::shared {

namespace {

using policy::limits::k_rate_max;
using policy::limits::lease_answer;
using policy::limits::rate;

constexpr std::int64_t k_ns_per_ms = 1'000'000;
constexpr std::int64_t k_us_per_s = 1'000'000;
constexpr std::int64_t k_s_per_day = 86'400;

rate per_minute(std::int64_t limit) {
  return {.limit = std::clamp<std::int64_t>(limit, 1, k_rate_max)};
}

void add(lack& least, lack& sum, const lack& one) {
  const auto count = [](auto& low, auto& all, auto n) {
    if (n <= 0) return;
    low = low == 0 ? n : std::min(low, n);
    all = n > INT64_MAX - all ? INT64_MAX : all + n;
  };
  count(least.requests, sum.requests, one.requests);
  count(least.tokens, sum.tokens, one.tokens);
  count(least.slots, sum.slots, one.slots);
  count(least.money, sum.money, one.money);
}

bool is_day_of(const std::string& label, std::int64_t store_us) {
  for (const std::int64_t off_s : {-k_clock_tolerance_s, k_clock_tolerance_s}) {
    const std::int64_t day = (store_us / k_us_per_s + off_s) / k_s_per_day;
    if (day >= 0 && day <= ledger::k_day_last &&
        ledger::day_label(static_cast<ledger::day_number>(day)) == label) {
      return true;
    }
  }
  return false;
}

}  // namespace

key_lease::key_lease(std::string id, std::int64_t lease_ms)
    : id_(std::move(id)),
      lease_ns_(lease_ms * k_ns_per_ms),
      requests_(lease_ns_),
      tokens_(lease_ns_),
      slots_(lease_ns_),
      day_(lease_ns_),
      month_(lease_ns_) {}

key_lease::verdict key_lease::enter(const auth::key_limits& limits, std::int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
  verdict out{.answer = lease_answer::granted};
  if (limits.concurrent > 0) {
    out.answer = slots_.take(now_ns);
    if (out.answer == lease_answer::refused) out.by = refused_by::slots;
    if (out.answer != lease_answer::granted) return out;
  }
  if (limits.requests_per_min == 0) return out;
  const auto how = per_minute(limits.requests_per_min);
  const auto got = requests_.take(how, 1, now_ns);
  out.answer = got.answer;
  out.retry_ns = got.retry_ns;
  if (got.answer == lease_answer::refused) out.by = refused_by::requests;
  if (got.answer != lease_answer::granted && limits.concurrent > 0) slots_.leave();
  out.is_low = requests_.is_low(how, now_ns);
  return out;
}

void key_lease::leave() {
  const std::lock_guard lock(mutex_);
  slots_.leave();
}

key_lease::verdict key_lease::take_tokens(const auth::key_limits& limits, std::int64_t units,
                                          std::int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
  const auto how = per_minute(limits.tokens_per_min);
  const auto got = tokens_.take(how, units, now_ns);
  return {.answer = got.answer,
          .by = got.answer == lease_answer::refused ? refused_by::tokens : refused_by::none,
          .retry_ns = got.retry_ns,
          .got = got.got,
          .is_low = tokens_.is_low(how, now_ns)};
}

void key_lease::settle_tokens(const policy::limits::lease_units& got, std::int64_t used,
                              std::int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (used < got.units) tokens_.give_back(got, got.units - used, now_ns);
  if (used > got.units) tokens_.charge(used - got.units);
}

key_lease::money_verdict key_lease::reserve(ledger::ledger& money, const auth::key_limits& limits,
                                            usd_nano amount, std::string_view request_id, ledger::done ok,
                                            std::int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
  if (now_ns < no_money_until_ns_) return away{(no_money_until_ns_ - now_ns) / k_ns_per_ms + 1};
  if (is_wrong_day_) return away{};
  auth::key_limits here;
  std::string label;
  for (const bool month : {false, true}) {
    const usd_nano limit = month ? limits.usd_per_month : limits.usd_per_day;
    const auto& lease = (month ? month_ : day_).lease;
    if (limit == 0) continue;
    if (amount > limit) {
      return ledger::exhausted{.month = month, .limit = limit, .wanted = amount, .never_fits = true};
    }
    if (!lease.is_valid(now_ns) || (lease.allowed() == 0 && amount > 0)) return ask{};
    // Nothing may be reserved of nothing, and to the ledger a limit of 0 is none.
    (month ? here.usd_per_month : here.usd_per_day) = std::clamp<usd_nano>(lease.allowed(), 1, limit);
  }
  auto got = money.reserve(id_, here, amount, request_id, std::move(ok));
  if (!got) {
    const auto* e = std::get_if<ledger::exhausted>(&got.error());
    if (e == nullptr) return std::get<ledger::fault>(got.error());
    return without_room(*e, limits, amount, now_ns);
  }
  const auto& label_here = limits.usd_per_day > 0 ? day_.label : month_.label;
  const auto label_now = limits.usd_per_day > 0 ? ledger::day_label(money.today())
                                                : ledger::month_label(ledger::month_of(money.today()));
  if (label_here != label_now) {  // a new window began, of which nothing is claimed yet
    money.settle(*got, 0);
    return away{};
  }
  reserved out{.id = *got};
  for (auto* w : {&day_, &month_}) {
    const usd_nano limit = w == &day_ ? limits.usd_per_day : limits.usd_per_month;
    if (limit == 0) continue;
    w->lease.took(amount);
    out.is_low = out.is_low || w->lease.is_low(limit, now_ns);
  }
  return out;
}

key_lease::money_verdict key_lease::without_room(const ledger::exhausted& e, const auth::key_limits& limits,
                                                 usd_nano amount, std::int64_t now_ns) const {
  const usd_nano limit = e.month ? limits.usd_per_month : limits.usd_per_day;
  const auto& lease = (e.month ? month_ : day_).lease;
  const usd_nano more = e.spent + e.reserved + amount - lease.allowed();
  if (!lease.is_refused(limit, more, now_ns)) return ask{};
  return ledger::exhausted{.month = e.month,
                           .limit = limit,
                           .spent = std::max(e.spent, lease.total() - e.reserved),
                           .reserved = e.reserved,
                           .wanted = amount,
                           .resets_in_s = e.resets_in_s};
}

policy::limits::level key_lease::look_requests(const auth::key_limits& limits, std::int64_t now_ns) const {
  const std::lock_guard lock(mutex_);
  return requests_.look(per_minute(limits.requests_per_min), now_ns);
}

policy::limits::level key_lease::look_tokens(const auth::key_limits& limits, std::int64_t now_ns) const {
  const std::lock_guard lock(mutex_);
  return tokens_.look(per_minute(limits.tokens_per_min), now_ns);
}

void key_lease::settled() {
  const std::lock_guard lock(mutex_);
  settled_ = true;
}

void key_lease::wait(store_answered tell, const lack& what) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back({std::move(tell), what});
}

void key_lease::wake_all(bool answered) {
  std::vector<waiter> woken;
  {
    const std::lock_guard lock(mutex_);
    woken.swap(waiting_);
  }
  for (const auto& w : woken) w.tell(answered);
}

key_lease::lacks key_lease::all_lacks() const {
  lacks out;
  for (const auto& w : waiting_) add(out.least, out.sum, w.what);
  return out;
}

bool key_lease::needs_claim(std::int64_t now_ns) const {
  for (const auto* w : {&day_, &month_}) {
    const usd_nano limit = w == &day_ ? limits_.usd_per_day : limits_.usd_per_month;
    if (limit > 0 && (w->lease.has_spare() || w->lease.is_low(limit, now_ns))) return true;
  }
  return false;
}

bool key_lease::has_news(std::int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (!waiting_.empty() || new_store_ || settled_ || needs_claim(now_ns)) return true;
  if (requests_.has_news(now_ns) || tokens_.has_news(now_ns)) return true;
  if (requests_.is_low(per_minute(limits_.requests_per_min), now_ns) && limits_.requests_per_min > 0)
    return true;
  if (tokens_.is_low(per_minute(limits_.tokens_per_min), now_ns) && limits_.tokens_per_min > 0) return true;
  return slots_.holds_any() && now_ns - beat_ns_ >= lease_ns_ / 4;
}

window_order key_lease::order_of(window& w, const ledger::window_spend& spent, usd_nano limit,
                                 const lacks& waiting, std::int64_t now_ns) {
  if (w.label != spent.label) {
    w = window(lease_ns_);
    w.label = spent.label;
  }
  const usd_nano taken = spent.spent + spent.reserved;
  const bool is_known = new_store_ && !w.claims.empty();
  if (limit == 0 && taken == 0 && !is_known) return {};
  if (new_store_) w.lease.forget_store();
  window_order out{.label = w.label, .limit = limit};
  out.claim = limit == 0 ? w.lease.next_order(0, taken, 0, 0, now_ns)
                         : w.lease.next_order(limit, taken, waiting.least.money, waiting.sum.money, now_ns);
  if (new_store_) out.seeds = w.claims;
  return out;
}

key_order key_lease::next_order(ledger::ledger* money, std::int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  const auto waiting = all_lacks();
  key_order out{.key = id_, .limits = limits_};
  const auto& [least, sum] = waiting;
  if (ending_) {
    requests_.end();
    tokens_.end();
    slots_.end();
    day_.lease.end();
    month_.lease.end();
  }
  if (limits_.requests_per_min > 0) {
    out.requests =
        requests_.next_order(per_minute(limits_.requests_per_min), least.requests, sum.requests, now_ns);
  }
  if (limits_.tokens_per_min > 0) {
    out.tokens = tokens_.next_order(per_minute(limits_.tokens_per_min), least.tokens, sum.tokens, now_ns);
  }
  if (limits_.concurrent > 0) out.slots = slots_.next_order(limits_.concurrent, sum.slots, now_ns);
  if (money != nullptr && (limits_.has_budget() || new_store_)) {
    const auto spent = money->spent(id_);
    out.day = order_of(day_, spent.day, limits_.usd_per_day, waiting, now_ns);
    out.month = order_of(month_, spent.month, limits_.usd_per_month, waiting, now_ns);
  }
  beat_ns_ = now_ns;
  settled_ = false;
  return out;
}

void key_lease::apply(const key_order& order, const key_grant& got, std::int64_t sent_ns,
                      std::int64_t now_ns) {
  {
    const std::lock_guard lock(mutex_);
    if (order.limits.requests_per_min > 0) requests_.apply(got.requests, sent_ns, now_ns);
    if (order.limits.tokens_per_min > 0) tokens_.apply(got.tokens, sent_ns, now_ns);
    if (order.limits.concurrent > 0) slots_.apply(got.slots, got.slots_free, sent_ns, now_ns);
    is_wrong_day_ = !order.day.label.empty() && !is_day_of(order.day.label, got.store_us);
    no_money_until_ns_ = got.grace_ms > 0 ? now_ns + got.grace_ms * k_ns_per_ms : 0;
    for (const bool month : {false, true}) {
      const auto& said = month ? order.month : order.day;
      const auto& granted = month ? got.month : got.day;
      auto& w = month ? month_ : day_;
      if (said.label.empty()) continue;
      w.lease.apply(granted.claim, granted.total, sent_ns, now_ns);
      w.claims = granted.claims;
    }
    new_store_ = false;
  }
  wake_all(true);
}

void key_lease::lost() {
  const std::lock_guard lock(mutex_);
  day_.lease.lost();
  month_.lease.lost();
}

void key_lease::store_is_new() {
  const std::lock_guard lock(mutex_);
  new_store_ = true;
}

void key_lease::end() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
}

bool key_lease::holds_any(std::int64_t now_ns) const {
  const std::lock_guard lock(mutex_);
  return requests_.left(now_ns) + tokens_.left(now_ns) > 0 || slots_.holds_any() || settled_ ||
         day_.lease.has_spare() || month_.lease.has_spare();
}

}  // namespace weir::gateway::shared
