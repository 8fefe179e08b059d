// Durations in log-linear buckets: any quantile within 1% of the true value, in constant memory however long
// the run. One thread.
#pragma once

#include <array>
#include <cstdint>

namespace weir::loadtest {

class histogram final {
 public:
  void add(double seconds);  // negative counts as 0; above 18 hours as 18 hours
  void merge(const histogram& other);

  std::uint64_t count() const noexcept { return count_; }
  double mean_s() const noexcept;
  double max_s() const noexcept { return max_s_; }

  // Smallest bucket bound with at least the share q of the values at or below it; 0 without values. REQUIRES:
  // 0 <= q <= 1.
  double quantile_s(double q) const;

 private:
  // Microseconds; each power of two is cut into 64 buckets, so a bucket is at most 1/64 of its value wide and
  // its middle at most 1/128 away from any value in it.
  static constexpr int k_sub_bits = 6;
  static constexpr int k_octaves = 36;
  static std::size_t index_of(std::uint64_t us);
  static double middle_of(std::size_t index);

  std::array<std::uint64_t, (k_octaves - k_sub_bits + 1) << k_sub_bits> buckets_{};
  std::uint64_t count_ = 0;
  double sum_s_ = 0;
  double max_s_ = 0;
};

}  // namespace weir::loadtest
