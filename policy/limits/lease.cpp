#include "policy/limits/lease.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace weir::policy::limits {

namespace {

std::int64_t chunk_of(std::int64_t limit) noexcept {
  return std::max<std::int64_t>(1, limit / k_lease_parts);
}

// Sums of what waits stay far from overflow: the store grants no more than a limit anyway.
std::int64_t sum_of(std::int64_t a, std::int64_t b) noexcept {
  constexpr std::int64_t k_most = std::numeric_limits<std::int64_t>::max();
  return a > k_most - b ? k_most : a + b;
}

std::int64_t time_of(const rate& how, std::int64_t units) noexcept {
  return static_cast<std::int64_t>((static_cast<int128>(units) * how.window_ns + how.limit - 1) / how.limit);
}

std::int64_t units_in(const rate& how, std::int64_t time_ns) noexcept {
  return static_cast<std::int64_t>(static_cast<int128>(std::max<std::int64_t>(0, time_ns)) * how.limit /
                                   how.window_ns);
}

}  // namespace

void rate_lease::refund(const lease_units& units) {
  if (units.units <= 0) return;
  for (auto& r : refunds_) {
    if (r.until != units.until && refunds_.size() < k_refunds_per_order) continue;
    r.units += units.units;
    r.until = std::min(r.until, units.until);  // the sooner, the less comes back
    return;
  }
  refunds_.push_back(units);
}

void rate_lease::expire(std::int64_t now_ns) {
  std::erase_if(grants_, [&](const lease_units& g) {
    if (g.units > 0 && now_ns < g.expires_ns) return false;
    refund(g);
    return true;
  });
}

std::int64_t rate_lease::left(std::int64_t now_ns) const noexcept {
  std::int64_t sum = 0;
  for (const auto& g : grants_) sum += now_ns < g.expires_ns ? g.units : 0;
  return sum;
}

std::int64_t rate_lease::ahead_at(std::int64_t now_ns) const noexcept {
  return std::max<std::int64_t>(0, ahead_ns_ - (now_ns - heard_ns_));
}

rate_lease::verdict rate_lease::take(const rate& how, std::int64_t units, std::int64_t now_ns) {
  expire(now_ns);
  used_ = true;
  const std::int64_t here = left(now_ns);
  if (here < units) {
    const bool heard = heard_ns_ != 0 && now_ns - heard_ns_ < lease_ns_ / k_view_part;
    const std::int64_t wait_ns = ahead_at(now_ns) + time_of(how, units - here) - how.window_ns;
    if (heard && wait_ns > 0) return {lease_answer::refused, wait_ns, {}};
    return {};
  }
  verdict out{lease_answer::granted, 0, {units, INT64_MAX, INT64_MAX}};
  for (auto& g : grants_) {
    const std::int64_t part = std::min(units, g.units);
    if (part == 0) continue;
    g.units -= part;
    units -= part;
    out.got.until = std::min(out.got.until, g.until);
    out.got.expires_ns = std::min(out.got.expires_ns, g.expires_ns);
  }
  return out;
}

void rate_lease::give_back(const lease_units& got, std::int64_t unused, std::int64_t now_ns) {
  const lease_units back{std::clamp<std::int64_t>(unused, 0, got.units), got.until, got.expires_ns};
  if (back.units == 0) return;
  if (now_ns >= back.expires_ns) return refund(back);
  for (auto& g : grants_) {
    if (g.until != back.until) continue;
    g.units += back.units;
    g.expires_ns = std::min(g.expires_ns, back.expires_ns);
    return;
  }
  if (grants_.size() >= k_refunds_per_order) return refund(back);
  grants_.push_back(back);
}

void rate_lease::charge(std::int64_t units) noexcept {
  owed_ = sum_of(owed_, std::max<std::int64_t>(0, units));
}

rate_order rate_lease::next_order(const rate& how, std::int64_t least, std::int64_t sum,
                                  std::int64_t now_ns) {
  expire(now_ns);
  const std::int64_t here = left(now_ns);
  rate_order out;
  out.refunds.swap(refunds_);
  out.owed = std::min(std::exchange(owed_, 0), k_windows_ahead * how.limit);
  const bool ahead = is_low(how, now_ns);
  const std::int64_t goal = sum_of(sum, ahead || sum > 0 ? chunk_of(how.limit) : 0);
  const std::int64_t counted = sum > 0 ? here : left(now_ns + lease_ns_ / 4);
  out.need = std::max<std::int64_t>(0, least - here);
  out.want = std::clamp<std::int64_t>(goal - counted, 0, how.limit);
  if (out.want > 0) used_ = false;
  return out;
}

void rate_lease::apply(const rate_grant& got, std::int64_t sent_ns, std::int64_t now_ns) {
  ahead_ns_ = got.ahead_ns;
  heard_ns_ = now_ns;
  if (got.units > 0) grants_.push_back({got.units, got.until, sent_ns + lease_ns_});
}

void rate_lease::end() {
  for (const auto& g : grants_) refund(g);
  grants_.clear();
  used_ = false;
}

bool rate_lease::is_low(const rate& how, std::int64_t now_ns) const noexcept {
  return used_ && left(now_ns + lease_ns_ / 4) * 2 < chunk_of(how.limit);
}

bool rate_lease::has_news(std::int64_t now_ns) {
  expire(now_ns);
  return !refunds_.empty() || owed_ > 0;
}

level rate_lease::look(const rate& how, std::int64_t now_ns) const noexcept {
  const std::int64_t ahead = ahead_at(now_ns);
  const std::int64_t remaining = units_in(how, how.window_ns - ahead) + left(now_ns);
  return {std::min(remaining, how.limit), ahead};
}

lease_answer slot_lease::take(std::int64_t now_ns) {
  if (now_ns < expires_ns_ && running_ < granted_) {
    peak_ = std::max(peak_, ++running_);
    return lease_answer::granted;
  }
  const bool heard = heard_ns_ != 0 && now_ns - heard_ns_ < lease_ns_ / k_view_part;
  return heard && free_ <= 0 ? lease_answer::refused : lease_answer::ask;
}

slot_order slot_lease::next_order(std::int64_t limit, std::int64_t waiting, std::int64_t now_ns) {
  const std::int64_t busy = std::max(running_ + waiting, peak_);
  peak_ = running_;
  const std::int64_t want = std::min(limit, busy == 0 ? 0 : busy + limit / k_lease_parts);
  if (now_ns >= expires_ns_) granted_ = running_;
  granted_ = std::min(granted_, std::max(want, running_));
  return {running_, want};
}

void slot_lease::apply(std::int64_t got, std::int64_t free, std::int64_t sent_ns, std::int64_t now_ns) {
  granted_ = got;
  free_ = free;
  expires_ns_ = sent_ns + lease_ns_;
  heard_ns_ = now_ns;
}

bool claim_lease::is_refused(usd_nano limit, usd_nano more, std::int64_t now_ns) const noexcept {
  return heard_ns_ != 0 && now_ns - heard_ns_ < view_ns_ && more > limit - std::min(limit, total_);
}

void claim_lease::took(usd_nano amount) noexcept {
  since_ = sum_of(since_, amount);
}

claim_order claim_lease::next_order(usd_nano limit, usd_nano taken, usd_nano least, usd_nano sum,
                                    std::int64_t now_ns) {
  const usd_nano chunk = chunk_of(limit);
  const bool in_use = since_ > 0 || sum > 0;
  const usd_nano kept = now_ns < trim_ns_ ? claim_ : sum_of(taken, sum_of(sum, 2 * chunk));
  claim_ = is_valid(now_ns) && in_use ? std::max(taken, std::min(claim_, kept)) : taken;
  if (!is_valid(now_ns)) expires_ns_ = 0;
  claim_order out{.hold = claim_, .known = known_};
  const usd_nano room = claim_ - taken;
  out.need = std::max<usd_nano>(0, least - room);
  if (in_use) out.want = std::clamp<usd_nano>(sum_of(sum, chunk) - room, 0, std::max<usd_nano>(limit, 0));
  since_ = 0;
  room_ = room;
  sent_ = claim_;
  return out;
}

void claim_lease::apply(usd_nano claim, usd_nano total, std::int64_t sent_ns, std::int64_t now_ns) {
  if (claim > sent_) trim_ns_ = now_ns + valid_ns_ / 2;
  room_ += claim - sent_;
  spare_ = room_ > 0;
  claim_ = known_ = claim;
  total_ = total;
  expires_ns_ = sent_ns + valid_ns_;
  heard_ns_ = now_ns;
}

void claim_lease::lost() noexcept {
  known_ = std::min(known_, sent_);
}

bool claim_lease::is_low(usd_nano limit, std::int64_t now_ns) const noexcept {
  return since_ > 0 && ((room_ - since_) * 2 < chunk_of(limit) || now_ns >= expires_ns_ - valid_ns_ / 2);
}

}  // namespace weir::policy::limits
