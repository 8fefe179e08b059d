// Learns how fast a target is from what was observed of it:
//   TTFT = base + work / rate     work: uncached tokens and prefill pending ahead, at dispatch
//   ITL  = base + per sequence * running
// each by least squares over observations that fade with their number, starting from configured values that
// count as a few observations. The spread of ln(observed / predicted TTFT) feeds the chance of a contract.
// One owner; not thread-safe.
#pragma once

#include <cstdint>

#include "policy/types.hpp"

namespace weir::policy {

// A line through points that fade. Values at two points stand for what is believed before the first point.
class fading_line {
 public:
  fading_line(double at_0, double slope, double scale, double weight) noexcept;

  void observe(double x, double y) noexcept;
  double intercept() const noexcept { return intercept_; }
  double slope() const noexcept { return slope_; }

 private:
  void fit() noexcept;

  double n_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;  // faded sums
  double intercept_ = 0;
  double slope_ = 0;
};

struct speed_prior {
  double prefill_tokens_per_s = 0;  // 0 = not known
  double ttft_base_s = 0.02;
  double itl_base_s = 0.015;
  double itl_per_sequence_s = 0.0002;
};

class speed_estimator {
 public:
  explicit speed_estimator(const speed_prior& prior) noexcept;

  // A first token came `ttft_s` after dispatch of a request with this much prefill work before it and in it.
  void observe_ttft(double work_tokens, double ttft_s) noexcept;
  // Tokens came every `itl_s` on average while `running` sequences ran.
  void observe_itl(std::int32_t running, double itl_s) noexcept;

  speed_view view() const noexcept;

 private:
  bool known_;  // a rate was configured, or enough was seen
  std::int64_t observed_ = 0;
  fading_line ttft_;
  fading_line itl_;
  double log_error2_;  // faded mean of ln(observed / predicted)^2
};

}  // namespace weir::policy
