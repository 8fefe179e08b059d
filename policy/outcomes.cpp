#include "policy/outcomes.hpp"

#include <algorithm>
#include <cmath>

namespace weir::policy {

namespace {

double fade(double since_s) noexcept {
  return std::exp2(-std::max(0.0, since_s) / k_half_life_s);
}

}  // namespace

request_class class_of(std::int64_t prompt_tokens) noexcept {
  if (prompt_tokens <= 2'048) return request_class::up_to_2k;
  if (prompt_tokens <= 16'384) return request_class::up_to_16k;
  return prompt_tokens <= 131'072 ? request_class::up_to_128k : request_class::beyond;
}

std::string_view to_text(request_class of) noexcept {
  switch (of) {
    case request_class::up_to_2k:
      return "up_to_2k";
    case request_class::up_to_16k:
      return "up_to_16k";
    case request_class::up_to_128k:
      return "up_to_128k";
    case request_class::beyond:
      return "beyond";
  }
  return "unknown";
}

void outcome_estimator::note(const result_seen& seen, double now_s) noexcept {
  auto& s = sums_[static_cast<std::size_t>(seen.of)];
  const double left = fade(now_s - s.at_s);
  s = {s.results * left, s.whole * left, s.kept * left, s.predicted * left, now_s};
  s.results += 1;
  if (seen.whole) {
    s.whole += 1;
    s.kept += seen.within_contract ? 1 : 0;
    s.predicted += std::clamp(seen.predicted, 0.0, 1.0);
  }
  auto& t = totals_[static_cast<std::size_t>(seen.of)];
  ++t.results;
  t.accepted += seen.whole && seen.within_contract ? 1 : 0;
  t.cost_usd += seen.cost_usd;
}

outcome_view outcome_estimator::view(request_class of, double now_s) const noexcept {
  const auto& s = sums_[static_cast<std::size_t>(of)];
  const double left = fade(now_s - s.at_s);
  const double success = (s.whole * left + k_prior_results) / (s.results * left + k_prior_results);
  const double calibration = (s.kept * left + k_prior_results) / (s.predicted * left + k_prior_results);
  return {std::clamp(success / k_success_enough, k_success_min, 1.0),
          std::clamp(calibration, k_calibration_min, k_calibration_max)};
}

const outcome_views& outcome_estimator::views(double now_s) noexcept {
  if (now_s - viewed_at_s_ >= k_view_kept_s) {
    for (std::size_t i = 0; i < views_.size(); ++i) views_[i] = view(static_cast<request_class>(i), now_s);
    viewed_at_s_ = now_s;
  }
  return views_;
}

}  // namespace weir::policy
