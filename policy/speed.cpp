#include "policy/speed.hpp"

#include <algorithm>
#include <cmath>

namespace weir::policy {

namespace {

constexpr double k_fade = 0.98;  // about the last 50 observations count
constexpr double k_prior_weight = 4;
constexpr double k_work_scale = 16'384;  // tokens: the second point of a prior
constexpr double k_running_scale = 64;
constexpr std::int64_t k_observations_min = 8;  // before an unconfigured rate is believed
constexpr double k_rate_max = 1e9;
constexpr double k_seconds_max = 86'400;
constexpr double k_spread_first = 0.5;
constexpr double k_spread_min = 0.1;
constexpr double k_spread_max = 2;

}  // namespace

fading_line::fading_line(double at_0, double slope, double scale, double weight) noexcept {
  n_ = weight;
  x_ = weight / 2 * scale;
  xx_ = weight / 2 * scale * scale;
  y_ = weight * at_0 + weight / 2 * slope * scale;
  xy_ = weight / 2 * scale * (at_0 + slope * scale);
  fit();
}

void fading_line::observe(double x, double y) noexcept {
  n_ = n_ * k_fade + 1;
  x_ = x_ * k_fade + x;
  y_ = y_ * k_fade + y;
  xx_ = xx_ * k_fade + x * x;
  xy_ = xy_ * k_fade + x * y;
  fit();
}

void fading_line::fit() noexcept {
  const double spread = n_ * xx_ - x_ * x_;
  // All points at one x say nothing about the slope: the old one stays.
  if (spread > 1e-6 * std::max(1.0, n_ * xx_)) slope_ = std::max(0.0, (n_ * xy_ - x_ * y_) / spread);
  intercept_ = (y_ - slope_ * x_) / n_;
  if (intercept_ < 0) {
    intercept_ = 0;
    if (xx_ > 0) slope_ = std::max(0.0, xy_ / xx_);
  }
}

speed_estimator::speed_estimator(const speed_prior& prior) noexcept
    : known_(prior.prefill_tokens_per_s > 0),
      ttft_(prior.ttft_base_s, 1 / (known_ ? prior.prefill_tokens_per_s : k_work_scale), k_work_scale,
            k_prior_weight),
      itl_(prior.itl_base_s, prior.itl_per_sequence_s, k_running_scale, k_prior_weight),
      log_error2_(k_spread_first * k_spread_first) {}

void speed_estimator::observe_ttft(double work_tokens, double ttft_s) noexcept {
  if (!(work_tokens >= 0) || !(ttft_s > 0) || ttft_s > k_seconds_max) return;
  const double predicted = ttft_.intercept() + ttft_.slope() * work_tokens;
  if (predicted > 0) {
    const double off = std::log(ttft_s / predicted);
    log_error2_ = log_error2_ * k_fade + (1 - k_fade) * off * off;
  }
  ttft_.observe(work_tokens, ttft_s);
  ++observed_;
}

void speed_estimator::observe_itl(std::int32_t running, double itl_s) noexcept {
  if (running < 0 || !(itl_s >= 0) || itl_s > k_seconds_max) return;
  itl_.observe(running, itl_s);
}

speed_view speed_estimator::view() const noexcept {
  speed_view out;
  if (known_ || observed_ >= k_observations_min) {
    out.prefill_tokens_per_s = 1 / std::max(ttft_.slope(), 1 / k_rate_max);
  }
  out.ttft_base_s = ttft_.intercept();
  out.itl_base_s = itl_.intercept();
  out.itl_per_sequence_s = itl_.slope();
  out.spread = std::clamp(std::sqrt(log_error2_), k_spread_min, k_spread_max);
  return out;
}

}  // namespace weir::policy
