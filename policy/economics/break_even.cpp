#include "policy/economics/break_even.hpp"

#include <algorithm>
#include <cmath>

namespace weir::policy::economics {

namespace {

using kind = crossing::kind;

constexpr double k_whole = 1e-12;  // a quotient this near to a whole number is that number

double ceil_of(double x) noexcept {
  return std::ceil(x - std::abs(x) * k_whole);
}

double floor_of(double x) noexcept {
  return std::floor(x + std::abs(x) * k_whole);
}

// Requests per hour of one replica; infinite where they take nothing.
double load_per_replica(const balance& b) noexcept {
  return 1 / replicas_per_load(b.bounds, b.peak_to_mean, b.self_hit_rate).replicas;
}

crossing at_load(double requests_per_hour, double replicas) noexcept {
  if (!(replicas <= static_cast<double>(k_replicas_max))) return {};
  return {.what = kind::at, .value = requests_per_hour, .replicas = static_cast<std::int64_t>(replicas)};
}

// The load at which n serving replicas cost what the API does, whether they carry it or not.
double load_paid_by(const balance& b, double serving) noexcept {
  const double usd =
      b.usd_fixed_per_hour + (serving + static_cast<double>(b.spares)) * b.usd_per_replica_hour;
  return usd / b.api_usd_per_request_here();
}

}  // namespace

double balance::fleet_usd_per_hour(std::int64_t replicas) const noexcept {
  return usd_fixed_per_hour + static_cast<double>(replicas) * usd_per_replica_hour;
}

double balance::api_usd_per_accepted(double hit_rate) const noexcept {
  return api.total(hit_rate) / api_accepted;
}

double balance::api_usd_per_request_here() const noexcept {
  return api_usd_per_accepted(api_hit_rate) * self_accepted;
}

crossing fleet_break_even(const balance& b, std::int64_t replicas) noexcept {
  const double usd = b.fleet_usd_per_hour(replicas);
  if (usd <= 0) return {.what = kind::always, .value = 0, .replicas = replicas};
  const double there = b.api_usd_per_request_here();
  const double capacity = static_cast<double>(replicas - b.spares) * load_per_replica(b);
  if (replicas <= b.spares || there <= 0 || !(usd / there <= capacity * (1 + k_whole))) return {};
  return at_load(usd / there, static_cast<double>(replicas));
}

// n replicas reach the load that pays for them where load_paid_by(n) <= n * load_per_replica, which is linear
// in n. One less does not, and is paid for by a smaller load than n: so the load found is n's own.
crossing first_break_even(const balance& b) noexcept {
  if (b.fleet_usd_per_hour(b.spares + 1) <= 0) return {.what = kind::always, .value = 0, .replicas = 0};
  const double each = load_per_replica(b);
  const double there = b.api_usd_per_request_here();
  if (there <= 0 || each <= 0) return {};
  double serving = 1;
  if (std::isfinite(each)) {
    const double gain = there * each - b.usd_per_replica_hour;  // of a full replica
    const double rest = b.fleet_usd_per_hour(b.spares);
    if (gain < 0 || (gain <= 0 && rest > 0)) return {};
    serving = rest > 0 ? std::max(1.0, ceil_of(rest / gain)) : 1;
  }
  return at_load(load_paid_by(b, serving), serving + static_cast<double>(b.spares));
}

// A step of n replicas begins at the load that fills n - 1. It begins no dearer than the API where
// load_paid_by(n) <= (n - 1) * load_per_replica; then all later ones do too. The step before it is the last
// one that begins dearer: self-hosting is cheaper for good from the load that pays for that one, or from its
// end.
crossing lasting_break_even(const balance& b) noexcept {
  const auto first = first_break_even(b);
  const double each = load_per_replica(b);
  if (first.what != kind::at || !std::isfinite(each)) return first;
  const double gain = b.api_usd_per_request_here() * each - b.usd_per_replica_hour;
  if (gain <= 0) return {};
  const double start = b.fleet_usd_per_hour(b.spares) + b.api_usd_per_request_here() * each;
  const double last_dear = std::max(1.0, ceil_of(start / gain) - 1);
  const double load = std::min(load_paid_by(b, last_dear), last_dear * each);
  return at_load(load, last_dear + static_cast<double>(b.spares));
}

crossing self_hit_break_even(const balance& b, double requests_per_hour) noexcept {
  const double per_hour = b.api_usd_per_request_here() * requests_per_hour;
  const double affordable = per_hour - b.fleet_usd_per_hour(b.spares);
  double serving = static_cast<double>(k_replicas_max);
  if (b.usd_per_replica_hour > 0) {
    serving = std::min(serving, floor_of(affordable / b.usd_per_replica_hour));
  } else if (affordable < 0) {
    return {};
  }
  if (serving < 1) return {};
  double needed = 0;
  for (const auto& bound : b.bounds) {
    const double room_s = serving * bound.available_s / (requests_per_hour * b.peak_to_mean) - bound.fixed_s;
    if (bound.cold_s > 0) {
      needed = std::max(needed, 1 - room_s / bound.cold_s);
    } else if (room_s < 0) {
      return {};
    }
  }
  const std::int64_t replicas = static_cast<std::int64_t>(serving) + b.spares;
  if (needed <= k_whole) return {.what = kind::always, .value = 0, .replicas = replicas};
  if (needed > b.reuse_share * (1 + k_whole)) return {};
  return {.what = kind::at, .value = needed, .replicas = replicas};
}

crossing api_hit_break_even(const balance& b, double usd_per_accepted) noexcept {
  const double here = usd_per_accepted * b.api_accepted;  // of a request there
  const double cold = b.api.total(0);
  const double warm = b.api.total(b.reuse_share);
  if (std::max(cold, warm) < here) return {.what = kind::always};
  if (std::min(cold, warm) > here || b.api.saved_by_hits <= 0) return {};
  const double rate = (cold - here) / b.api.saved_by_hits;
  return {.what = kind::at, .value = std::clamp(rate, 0.0, b.reuse_share)};
}

}  // namespace weir::policy::economics
