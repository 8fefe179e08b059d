#include "gateway/ledger/label_clock.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace weir::gateway::ledger {

namespace {

constexpr std::int64_t k_day_s = 86'400;

std::int64_t in_range(std::int64_t unix_s) {
  return std::clamp<std::int64_t>(unix_s, 0, k_label_s_last);
}

std::int64_t read_clock(clockid_t clock) {
  timespec at{};
  clock_gettime(clock, &at);
  return at.tv_sec;
}

std::chrono::year_month_day civil(day_number day) {
  return std::chrono::year_month_day(std::chrono::sys_days(std::chrono::days(day)));
}

}  // namespace

std::string day_label(day_number day) {
  const auto date = civil(day);
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

std::string month_label(month_number month) {
  return fmt::format("{:04}-{:02}", month / 12, month % 12 + 1);
}

month_number month_of(day_number day) {
  const auto date = civil(day);
  return static_cast<int>(date.year()) * 12 + static_cast<int>(static_cast<unsigned>(date.month())) - 1;
}

day_number first_day_of(month_number month) {
  const std::chrono::year_month_day first(std::chrono::year(month / 12),
                                          std::chrono::month(static_cast<unsigned>(month % 12 + 1)),
                                          std::chrono::day(1));
  return static_cast<day_number>(std::chrono::sys_days(first).time_since_epoch().count());
}

label_clock::label_clock(const seconds& wall_s, seconds boot_s, std::int64_t floor_s)
    : boot_s_(std::move(boot_s)),
      wall_at_start_s_(in_range(wall_s())),
      boot_at_start_s_(boot_s_()),
      floor_s_(in_range(floor_s)) {}

moment label_clock::now() const {
  const auto real_s = in_range(wall_at_start_s_ + (boot_s_() - boot_at_start_s_));
  moment at;
  at.label_s = std::max(real_s, floor_s_);
  at.day = static_cast<day_number>(at.label_s / k_day_s);
  at.month = month_of(at.day);
  at.day_resets_in_s = std::int64_t{at.day + 1} * k_day_s - real_s;
  at.month_resets_in_s = std::int64_t{first_day_of(at.month + 1)} * k_day_s - real_s;
  return at;
}

std::int64_t label_clock::behind_s() const noexcept {
  return std::max<std::int64_t>(0, floor_s_ - wall_at_start_s_);
}

std::int64_t system_wall_s() {
  return read_clock(CLOCK_REALTIME);
}

std::int64_t system_boot_s() {
  return read_clock(CLOCK_BOOTTIME);
}

}  // namespace weir::gateway::ledger
