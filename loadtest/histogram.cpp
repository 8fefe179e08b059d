#include "loadtest/histogram.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

namespace weir::loadtest {

std::size_t histogram::index_of(std::uint64_t us) {
  if (us < (1U << k_sub_bits)) return static_cast<std::size_t>(us);
  const int octave = static_cast<int>(std::bit_width(us)) - 1 - k_sub_bits;
  const auto sub = static_cast<std::size_t>(us >> octave) - (1U << k_sub_bits);
  return ((static_cast<std::size_t>(octave) + 1) << k_sub_bits) + sub;
}

double histogram::middle_of(std::size_t index) {
  if (index < (1U << k_sub_bits)) return static_cast<double>(index);
  const auto octave = (index >> k_sub_bits) - 1;
  const auto sub = index & ((1U << k_sub_bits) - 1);
  return std::ldexp(static_cast<double>((1U << k_sub_bits) + sub) + 0.5, static_cast<int>(octave));
}

void histogram::add(double seconds) {
  const double limit_us = std::ldexp(1.0, k_octaves) - 1;
  const double us = std::clamp(seconds * 1e6, 0.0, limit_us);
  ++buckets_[std::min(index_of(static_cast<std::uint64_t>(us)), buckets_.size() - 1)];
  ++count_;
  sum_s_ += us * 1e-6;
  max_s_ = std::max(max_s_, us * 1e-6);
}

void histogram::merge(const histogram& other) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_s_ += other.sum_s_;
  max_s_ = std::max(max_s_, other.max_s_);
}

double histogram::mean_s() const noexcept {
  return count_ == 0 ? 0 : sum_s_ / static_cast<double>(count_);
}

double histogram::quantile_s(double q) const {
  assert(q >= 0 && q <= 1);
  const auto wanted = static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= std::max<std::uint64_t>(wanted, 1)) return std::min(middle_of(i) * 1e-6, max_s_);
  }
  return 0;
}

}  // namespace weir::loadtest
