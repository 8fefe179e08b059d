// Which UTC day and month it is, for budgets: a clock that does not follow the wall clock's jumps. It is the
// wall time at the start plus what CLOCK_BOOTTIME has run since, and never behind `floor_s`, the latest time
// that an earlier run has written: after a start with a clock that is behind, the label stands still until
// the clock has caught up.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace weir::gateway::ledger {

using day_number = std::int32_t;    // days since 1970-01-01
using month_number = std::int32_t;  // months since 0000-01

inline constexpr day_number k_day_last = 2'932'896;  // 9999-12-31: what a label can name
inline constexpr std::int64_t k_label_s_last = 253'402'300'799;
inline constexpr month_number k_month_last = 119'999;

struct moment {
  std::int64_t label_s = 0;  // Unix time, never behind the floor
  day_number day = 0;
  month_number month = 0;
  std::int64_t day_resets_in_s = 0;  // > 0; true even while the label stands still
  std::int64_t month_resets_in_s = 0;
};

std::string day_label(day_number);      // "2026-11-30"
std::string month_label(month_number);  // "2026-11"
month_number month_of(day_number);
day_number first_day_of(month_number);

// Immutable; any thread, if the two clocks are.
class label_clock final {
 public:
  using seconds = std::function<std::int64_t()>;
  label_clock(const seconds& wall_s, seconds boot_s, std::int64_t floor_s);

  moment now() const;
  std::int64_t behind_s() const noexcept;  // > 0: the wall clock at the start was behind the floor

 private:
  seconds boot_s_;
  std::int64_t wall_at_start_s_;
  std::int64_t boot_at_start_s_;
  std::int64_t floor_s_;
};

std::int64_t system_wall_s();
std::int64_t system_boot_s();

}  // namespace weir::gateway::ledger
