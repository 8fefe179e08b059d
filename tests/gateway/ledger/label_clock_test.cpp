#include "gateway/ledger/label_clock.hpp"

#include <catch2/catch.hpp>

#include "tests/gateway/ledger/support.hpp"

namespace weir::gateway::ledger {

namespace {

label_clock clock_of(hand_clock& hands, std::int64_t floor_s = 0) {
  return label_clock([&] { return hands.wall_s.load(); }, [&] { return hands.boot_s.load(); }, floor_s);
}

}  // namespace

TEST_CASE("labels and the seconds to their end are those of the calendar") {
  struct row {
    const char* name;
    std::int64_t unix_s;
    const char* day;
    const char* month;
    std::int64_t day_left_s, month_left_s;
  };
  const row rows[] = {
      {"the epoch", 0, "1970-01-01", "1970-01", 86'400, 31 * 86'400},
      {"noon before a month's end", k_noon_s, "2026-11-30", "2026-11", 43'200, 43'200},
      {"last second of a leap day", 1'709'251'199, "2024-02-29", "2024-02", 1, 1},
      {"first second of a year", 1'767'225'600, "2026-01-01", "2026-01", 86'400, 31 * 86'400},
      {"before the epoch counts as it", -5, "1970-01-01", "1970-01", 86'400, 31 * 86'400},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    hand_clock hands;
    hands.wall_s = row.unix_s;
    const auto now = clock_of(hands).now();
    CHECK(day_label(now.day) == row.day);
    CHECK(month_label(now.month) == row.month);
    CHECK(now.day_resets_in_s == row.day_left_s);
    CHECK(now.month_resets_in_s == row.month_left_s);
  }
}

TEST_CASE("a wall clock that jumps while running moves no label") {
  hand_clock hands;
  const auto clock = clock_of(hands);
  for (const std::int64_t jump_s : {86'400, -86'400, 400 * 86'400}) {
    hands.wall_s = k_noon_s + jump_s;
    CHECK(clock.now().label_s == k_noon_s);
  }
  hands.boot_s += 43'199;
  CHECK(day_label(clock.now().day) == "2026-11-30");
  CHECK(clock.now().day_resets_in_s == 1);
  hands.boot_s += 1;
  CHECK(day_label(clock.now().day) == "2026-12-01");
  CHECK(clock.now().day_resets_in_s == 86'400);
}

TEST_CASE("a start with a clock that is behind holds the label until the clock has caught up") {
  hand_clock hands;
  const auto floor_s = k_noon_s + 86'400;
  const auto clock = clock_of(hands, floor_s);
  CHECK(clock.behind_s() == 86'400);
  CHECK(day_label(clock.now().day) == "2026-12-01");
  CHECK(clock.now().day_resets_in_s == 86'400 + 43'200);
  hands.run(86'400 + 43'199);
  CHECK(day_label(clock.now().day) == "2026-12-01");
  CHECK(clock.now().day_resets_in_s == 1);
  hands.run(1);
  CHECK(day_label(clock.now().day) == "2026-12-02");
}

TEST_CASE("months and their first days agree") {
  for (day_number day = 0; day <= 40'000; ++day) {
    const auto month = month_of(day);
    const bool inside = first_day_of(month) <= day && day < first_day_of(month + 1);
    if (!inside) FAIL("day " << day);
  }
  CHECK(month_of(k_day_last) == k_month_last);
}

}  // namespace weir::gateway::ledger
