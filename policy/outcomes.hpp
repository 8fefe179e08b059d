// What became of the results that a target promised: of each class of requests, how many were accepted, and
// how that compares with what was predicted. A result is accepted when it came whole, at its first attempt,
// within its latency contract; one that its client left counts for nothing.
//
//   success      share of results that came whole at that target            -> weight of its quality, where
//   more
//                than a few did not: an outage is the breaker's affair, and equals shall stay equal behind it
//   calibration  kept contracts / sum of predicted chances                  -> factor of the predicted chance
//   cost         USD of all results / accepted ones                         -> what a result really costs
//
// Observations fade by time (half of them count after k_half_life_s), so that a target which is passed over
// for its past is tried again: without observations both are 1. Pure but for its own sums; one owner, not
// thread-safe. `now_s`: any monotonic clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir::policy {

inline constexpr double k_half_life_s = 600;
inline constexpr double k_prior_results = 100;    // observations that nothing seen yet counts for
inline constexpr double k_success_enough = 0.95;  // counts as all
inline constexpr double k_view_kept_s = 0.5;
inline constexpr double k_success_min = 0.05;
inline constexpr double k_calibration_min = 0.25;
inline constexpr double k_calibration_max = 2;

// Requests that behave alike, by the size of their prompts.
enum class request_class : std::uint8_t { up_to_2k, up_to_16k, up_to_128k, beyond };
inline constexpr std::size_t k_request_classes = 4;

request_class class_of(std::int64_t prompt_tokens) noexcept;
std::string_view to_text(request_class of) noexcept;

struct outcome_view {
  double success = 1;      // [k_success_min, 1]
  double calibration = 1;  // [k_calibration_min, k_calibration_max]
};
using outcome_views = std::array<outcome_view, k_request_classes>;

struct result_seen {
  request_class of = request_class::up_to_2k;
  bool whole = false;            // it came to its end, and was not tried elsewhere
  bool within_contract = false;  // of those that came whole
  double predicted = 1;          // the chance of that, when it was sent
  double cost_usd = 0;           // also of one that failed, where the target was paid
};

class outcome_estimator final {
 public:
  void note(const result_seen& seen, double now_s) noexcept;

  outcome_view view(request_class of, double now_s) const noexcept;
  // All of them, as of at most k_view_kept_s ago.
  const outcome_views& views(double now_s) noexcept;

  // Since the start; for metrics and reports.
  struct totals {
    std::uint64_t results = 0;
    std::uint64_t accepted = 0;
    double cost_usd = 0;

    double usd_per_accepted() const noexcept {
      return accepted == 0 ? 0 : cost_usd / static_cast<double>(accepted);
    }
  };
  const totals& total(request_class of) const noexcept { return totals_[static_cast<std::size_t>(of)]; }

 private:
  struct sums {
    double results = 0;
    double whole = 0;
    double kept = 0;       // contracts, of whole results
    double predicted = 0;  // of the same
    double at_s = 0;
  };
  std::array<sums, k_request_classes> sums_;
  std::array<totals, k_request_classes> totals_;
  outcome_views views_;
  double viewed_at_s_ = -k_view_kept_s;
};

}  // namespace weir::policy
