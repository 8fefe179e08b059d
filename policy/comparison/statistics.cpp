#include "policy/comparison/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace weir::policy::comparison {

namespace {

constexpr double alpha_of(confidence sure) noexcept {
  return sure == confidence::p95 ? 0.05 : 0.01;
}

// Two-sided quantiles of the normal distribution.
constexpr double z_of(confidence sure) noexcept {
  return sure == confidence::p95 ? 1.959963984540054 : 2.5758293035489004;
}

// ln(n choose k), without std::lgamma, which writes a global.
double log_choose(std::int64_t n, std::int64_t k) noexcept {
  double sum = 0;
  const auto few = std::min(k, n - k);
  for (std::int64_t i = 1; i <= few; ++i) {
    sum += std::log(static_cast<double>(n - few + i)) - std::log(static_cast<double>(i));
  }
  return sum;
}

// Calls `see(k, P(Bin(n, q) = k), P(Bin(n, q) <= k))` for k = 0, 1, ... until it returns false.
template <class See>
void each_term(std::int64_t n, double q, See see) noexcept {
  double log_term = static_cast<double>(n) * std::log1p(-q);
  const double log_odds = std::log(q) - std::log1p(-q);
  double below = 0;
  for (std::int64_t k = 0; k <= n; ++k) {
    const double term = std::exp(log_term);
    below += term;
    if (!see(k, below)) return;
    if (k < n) log_term += std::log(static_cast<double>(n - k) / static_cast<double>(k + 1)) + log_odds;
  }
}

std::size_t rank_of(std::size_t n, double q) noexcept {
  // A product that is a whole number up to rounding is meant to be one: 0.95 * 2000.
  const double exact = q * static_cast<double>(n);
  const double rank = std::ceil(exact - 1e-9 * exact);
  return std::clamp(static_cast<std::size_t>(rank), std::size_t{1}, n);
}

}  // namespace

double quantile(std::span<const double> sorted, double q) noexcept {
  const auto n = sorted.size();
  if (q == 0.5 && n % 2 == 0) return (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
  return sorted[rank_of(n, q) - 1];
}

rank_bounds quantile_ranks(std::size_t n, double q, confidence sure) noexcept {
  const double tail = alpha_of(sure) / 2;
  rank_bounds out;
  each_term(static_cast<std::int64_t>(n), q, [&](std::int64_t k, double below) {
    if (below <= tail) out.low = static_cast<std::size_t>(k) + 1;
    if (below < 1 - tail) return true;
    if (static_cast<std::size_t>(k) + 1 <= n) out.high = static_cast<std::size_t>(k) + 1;
    return false;
  });
  return out;
}

interval quantile_interval(std::span<const double> sorted, double q, confidence sure) noexcept {
  const auto ranks = quantile_ranks(sorted.size(), q, sure);
  interval out;
  if (ranks.low > 0) out.low = sorted[ranks.low - 1];
  if (ranks.high > 0) out.high = sorted[ranks.high - 1];
  return out;
}

interval share_interval(std::int64_t hits, std::int64_t n, confidence sure) noexcept {
  if (n <= 0) return {};
  const double count = static_cast<double>(n);
  const double share = static_cast<double>(hits) / count;
  const double zz = z_of(sure) * z_of(sure);
  const double middle = (share + zz / (2 * count)) / (1 + zz / count);
  const double half =
      z_of(sure) * std::sqrt(share * (1 - share) / count + zz / (4 * count * count)) / (1 + zz / count);
  return {.low = hits == 0 ? 0 : std::max(0.0, middle - half),
          .high = hits == n ? 1 : std::min(1.0, middle + half)};
}

double sign_test(std::int64_t up, std::int64_t down) noexcept {
  const auto n = up + down;
  const auto few = std::min(up, down);
  if (n == 0 || 2 * few >= n) return 1;
  double log_term = log_choose(n, few) - static_cast<double>(n) * std::log(2.0);
  double sum = 0;
  for (auto k = few; k >= 0; --k) {
    const double term = std::exp(log_term);
    sum += term;
    if (term < sum * 1e-17) break;
    if (k > 0) log_term += std::log(static_cast<double>(k) / static_cast<double>(n - k + 1));
  }
  return std::min(1.0, 2 * sum);
}

std::optional<saving> ratio_of_sums(std::span<const double> a, std::span<const double> b) noexcept {
  const auto n = a.size();
  double sum_a = 0;
  double sum_b = 0;
  for (std::size_t i = 0; i < n; ++i) {
    sum_a += a[i];
    sum_b += b[i];
  }
  if (n < 2 || sum_a <= 0) return std::nullopt;
  const double ratio = sum_b / sum_a;
  double squares = 0;
  for (std::size_t i = 0; i < n; ++i) squares += (b[i] - ratio * a[i]) * (b[i] - ratio * a[i]);
  const double count = static_cast<double>(n);
  const double error = std::sqrt(count / (count - 1) * squares) / sum_a;
  const auto around = [&](confidence sure) {
    const double half = z_of(sure) * error;
    return interval{.low = 1 - ratio - half, .high = 1 - ratio + half};
  };
  return saving{.share = 1 - ratio, .p95 = around(confidence::p95), .p99 = around(confidence::p99)};
}

}  // namespace weir::policy::comparison
