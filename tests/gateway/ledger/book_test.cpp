#include "gateway/ledger/book.hpp"

#include <catch2/catch.hpp>

#include "tests/gateway/ledger/support.hpp"

namespace weir::gateway::ledger {

namespace {

moment moment_of(std::int64_t unix_s) {
  return label_clock([unix_s] { return unix_s; }, [] { return std::int64_t{0}; }, 0).now();
}

reservation_id reserve(book& sums, usd_nano amount, const moment& now, const std::string& account = "a") {
  return sums.reserve(
      std::make_shared<const reservation_record>(reservation_record{.account = account,
                                                                    .amount = amount,
                                                                    .day = now.day,
                                                                    .month = now.month,
                                                                    .reserved_at_s = now.label_s}));
}

}  // namespace

TEST_CASE("a budget has room up to its last nano-dollar") {
  struct row {
    const char* name;
    usd_nano day_limit, month_limit, spent, reserved, wanted;
    bool fits, month, never_fits;
  };
  constexpr auto k_max = k_usd_nano_max;
  const row rows[] = {
      {"no limit", 0, 0, 0, 0, k_max, true, false, false},
      {"no limit and all the money there is", 0, 0, k_max, k_max, k_max, true, false, false},
      {"exactly the limit", 100, 0, 30, 30, 40, true, false, false},
      {"one more", 100, 0, 30, 30, 41, false, false, false},
      {"more than the whole day", 100, 0, 0, 0, 101, false, false, true},
      {"the month is the narrower", 100, 90, 30, 30, 31, false, true, false},
      {"both are full: the month resets last", 50, 50, 30, 30, 1, false, true, false},
      {"never fits the day, and the month is full", 10, 50, 30, 20, 11, false, false, true},
      {"nothing wanted of a full budget", 60, 0, 30, 30, 0, true, false, false},
      {"nothing wanted of an overrun budget", 50, 0, 30, 30, 0, false, false, false},
      {"sums stop at the end of the scale", k_max, 0, k_max - 1, 1, 1, false, false, false},
  };
  const auto now = moment_of(k_noon_s);
  for (const auto& row : rows) {
    INFO(row.name);
    book sums;
    sums.end(reserve(sums, 0, now), row.spent, ending::settled);
    reserve(sums, row.reserved, now);
    const auto full = sums.check("a", budget(row.day_limit, row.month_limit), row.wanted, now);
    CHECK(full.has_value() != row.fits);
    if (!full) continue;
    CHECK(full->month == row.month);
    CHECK(full->never_fits == row.never_fits);
    CHECK(full->spent == row.spent);
    CHECK(full->reserved == row.reserved);
    CHECK(full->wanted == row.wanted);
    CHECK(full->resets_in_s == 43'200);
  }
}

TEST_CASE("money saturates, and what is reserved comes apart exactly") {
  const auto now = moment_of(k_noon_s);
  book sums;
  const auto first = reserve(sums, k_usd_nano_max, now);
  const auto second = reserve(sums, k_usd_nano_max, now);
  CHECK(saturated(sums.find("a")->days.get(now.day).reserved) == k_usd_nano_max);
  sums.end(first, k_usd_nano_max, ending::settled);
  CHECK(sums.find("a")->days.get(now.day).reserved == k_usd_nano_max);
  sums.end(second, k_usd_nano_max, ending::settled);
  CHECK(sums.find("a")->days.get(now.day).reserved == 0);
  CHECK(sums.find("a")->months.get(now.month).spent == k_usd_nano_max);
  CHECK(sums.state().spent == k_usd_nano_max);
  CHECK_FALSE(sums.find_contradiction());
}

TEST_CASE("money stays in the day and month of its reservation, and old windows are dropped") {
  book sums;
  const auto before = moment_of(k_noon_s);
  const auto id = reserve(sums, 10, before);
  const auto after = moment_of(k_noon_s + 43'200);
  CHECK_FALSE(sums.check("a", budget(1), 1, after));
  sums.end(id, 7, ending::settled);
  CHECK(sums.find("a")->days.get(before.day).spent == 7);
  CHECK(sums.find("a")->days.get(after.day).spent == 0);
  CHECK(sums.find("a")->months.get(before.month).spent == 7);

  const auto kept = moment_of(k_noon_s + k_days_kept * 86'400);
  CHECK(sums.drop_old(kept).empty());
  const auto dropped = sums.drop_old(moment_of(k_noon_s + (k_days_kept + 1) * 86'400));
  REQUIRE(dropped.size() == 1);
  CHECK(dropped[0].label == before.day);
  CHECK(sums.find("a")->months.get(before.month).spent == 7);
  CHECK(sums.drop_old(moment_of(k_noon_s + 425 * 86'400)).size() == 1);
  CHECK(sums.find("a")->sums.spent == 7);
  CHECK_FALSE(sums.find_contradiction());
}

TEST_CASE("a window in which something is reserved is never dropped") {
  book sums;
  const auto id = reserve(sums, 10, moment_of(k_noon_s));
  CHECK(sums.drop_old(moment_of(k_noon_s + 1000 * 86'400)).empty());
  CHECK(sums.end(id, 3, ending::settled));
  CHECK(sums.drop_old(moment_of(k_noon_s + 1000 * 86'400)).size() == 2);
}

TEST_CASE("stored sums that contradict each other are found") {
  const auto now = moment_of(k_noon_s);
  struct row {
    const char* name;
    state_record state;
    account_record account;
    usd_nano day, month;
    bool open;
    bool good;
  };
  const row rows[] = {
      {"agreement", {.next_id = 3, .settled = 1, .spent = 5}, {2, 1, 5}, 5, 5, true, true},
      {"a reservation is missing", {.next_id = 3, .settled = 1, .spent = 5}, {2, 1, 5}, 5, 5, false, false},
      {"one too many", {.next_id = 2, .settled = 1, .spent = 5}, {2, 1, 5}, 5, 5, true, false},
      {"its account does not know it",
       {.next_id = 3, .settled = 1, .spent = 5},
       {1, 1, 5},
       5,
       5,
       true,
       false},
      {"the total differs", {.next_id = 3, .settled = 1, .spent = 6}, {2, 1, 5}, 5, 5, true, false},
      {"the day differs", {.next_id = 3, .settled = 1, .spent = 5}, {2, 1, 5}, 4, 5, true, false},
      {"the month is more than the account",
       {.next_id = 3, .settled = 1, .spent = 5},
       {2, 1, 5},
       6,
       6,
       true,
       false},
      {"the reservation is beyond the last id", {.next_id = 1}, {0, 0, 0}, 0, 0, true, false},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    book sums;
    sums.state() = row.state;
    sums.state().clock_s = now.label_s;
    sums.restore(stored_account{"a", row.account});
    sums.restore(stored_window{"a", window_unit::day, now.day, row.day});
    sums.restore(stored_window{"a", window_unit::month, now.month, row.month});
    if (row.open) {
      sums.restore(stored_reservation{2, {.account = "a", .amount = 1, .day = now.day, .month = now.month}});
    }
    CHECK(sums.find_contradiction().has_value() != row.good);
  }
}

}  // namespace weir::gateway::ledger
