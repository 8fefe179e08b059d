// What a sample says of what it was drawn from, and how sure that is. All intervals are exact or conservative
// ones that ask nothing of the distribution, but for a ratio of sums, whose interval is the normal one. Pure;
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace weir::policy::comparison {

// Of two-sided intervals.
enum class confidence : std::uint8_t { p95, p99 };

struct interval {
  // Nothing: the sample is too small to bound it on this side.
  std::optional<double> low;
  std::optional<double> high;

  friend bool operator==(const interval&, const interval&) = default;
};

// Value at a quantile of sorted values: of the median the mean of the two in the middle, else the nearest
// rank, ceil(q * n). REQUIRES: not empty, ascending; 0 < q < 1.
double quantile(std::span<const double> sorted, double q) noexcept;

// Ranks (from 1) between which the q-quantile lies: with `low` the largest rank such that at least so many
// values are below it only with probability alpha / 2, and `high` likewise above. 0: not bounded.
struct rank_bounds {
  std::size_t low = 0;
  std::size_t high = 0;
};
rank_bounds quantile_ranks(std::size_t n, double q, confidence sure) noexcept;

// By order statistics: P(Bin(n, q) < rank) is exact for any continuous distribution, conservative with ties.
interval quantile_interval(std::span<const double> sorted, double q, confidence sure) noexcept;

// Wilson's score interval of a share (Wilson 1927), in [0, 1]. Nothing on both sides for n = 0.
interval share_interval(std::int64_t hits, std::int64_t n, confidence sure) noexcept;

// P of at most min(up, down) of up + down fair coins, twice: the sign test; of discordant pairs McNemar's
// exact test. 1 for no coin.
double sign_test(std::int64_t up, std::int64_t down) noexcept;

// 1 - sum(b) / sum(a): how much less b is. Nothing where it has no meaning: fewer than two pairs, or nothing
// in sum(a).
struct saving {
  double share = 0;
  interval p95, p99;
};
// The interval is that of a ratio of sums of paired values, linearised (Cochran 1977, 6.4).
// REQUIRES: as many in `a` as in `b`.
std::optional<saving> ratio_of_sums(std::span<const double> a, std::span<const double> b) noexcept;

}  // namespace weir::policy::comparison
