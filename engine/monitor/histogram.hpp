// Durations counted by upper bound, as Prometheus has them. A plain value.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::engine::monitor {

class histogram final {
 public:
  static constexpr std::size_t k_bounds_max = 24;

  // Ascending; they outlive the histogram. REQUIRES: at most k_bounds_max.
  explicit histogram(std::span<const double> bounds) noexcept : bounds_(bounds) {
    assert(bounds.size() <= k_bounds_max);
  }

  void observe(double seconds) noexcept {
    const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), seconds) - bounds_.begin();
    ++counts_[static_cast<std::size_t>(at)];
    sum_s_ += seconds;
    ++count_;
  }

  std::span<const double> bounds() const noexcept { return bounds_; }
  // Up to each bound and above the one before it; the last: above all.
  std::span<const std::uint64_t> counts() const noexcept {
    return std::span(counts_).first(bounds_.size() + 1);
  }
  double sum_s() const noexcept { return sum_s_; }
  std::uint64_t count() const noexcept { return count_; }

 private:
  std::span<const double> bounds_;
  std::array<std::uint64_t, k_bounds_max + 1> counts_{};
  double sum_s_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace weir::engine::monitor
