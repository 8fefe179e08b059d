#include "gateway/ledger/ledger.hpp"

#include <sys/stat.h>

#include <thread>
#include <vector>

#include "tests/gateway/ledger/support.hpp"

namespace weir::gateway::ledger {

namespace {

auth::key_record key_of(const std::string& id, bool revoked = false) {
  return {.id = id, .name = id, .tenant = "acme", .revoked = revoked};
}

template <class Record>
std::expected<void, fault> put_and_wait(ledger& book, Record record) {
  outcome told;
  if (auto taken = book.put(std::move(record), told.callback()); !taken) return taken;
  return told.wait();
}

std::expected<void, fault> erase_and_wait(ledger& book, const std::string& id) {
  outcome told;
  REQUIRE(book.erase_key(id, told.callback()));
  return told.wait();
}

}  // namespace

TEST_CASE("keys and tenants are there when their callback says so, and after a restart") {
  const testing::temp_dir folder;
  hand_clock clock;
  {
    const auto book = open_good(settings_for(folder.path() / "ledger", clock));
    REQUIRE(put_and_wait(*book, key_of("key_b")));
    REQUIRE(put_and_wait(*book, key_of("key_a")));
    REQUIRE(put_and_wait(*book, key_of("key_c", true)));
    REQUIRE(put_and_wait(*book, auth::tenant_record{.name = "acme", .weight = 4}));
    CHECK(book->keys() == std::vector{key_of("key_a"), key_of("key_b"), key_of("key_c", true)});
    REQUIRE(erase_and_wait(*book, "key_a"));
    REQUIRE(erase_and_wait(*book, "key_a"));
    CHECK(put_and_wait(*book, key_of("key_c")) == std::unexpected(fault::invalid));
    CHECK(put_and_wait(*book, key_of("")) == std::unexpected(fault::invalid));
  }
  struct stat about {};
  REQUIRE(::stat((folder.path() / "ledger").c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0700);
  const auto book = open_good(settings_for(folder.path() / "ledger", clock));
  CHECK(book->keys() == std::vector{key_of("key_b"), key_of("key_c", true)});
  CHECK(book->tenants() == std::vector{auth::tenant_record{.name = "acme", .weight = 4}});
}

TEST_CASE("a reservation is settled once, in its own day, and survives a restart") {
  const testing::temp_dir folder;
  hand_clock clock;
  {
    const auto book = open_good(settings_for(folder.path(), clock));
    const auto first = reserve_durably(*book, "a", 60, budget(100, 1000));
    CHECK(first == 1);
    CHECK(book->spent("a").day == window_spend{"2026-11-30", 0, 60, 43'200});
    const auto refused = book->reserve("a", budget(100, 1000), 41, "r", [](auto) {});
    REQUIRE_FALSE(refused);
    CHECK(std::get<exhausted>(refused.error()).resets_in_s == 43'200);
    settle_durably(*book, first, 25);
    settle_durably(*book, first, 99);
    settle_durably(*book, 12'345, 99);
    CHECK(book->spent("a").day == window_spend{"2026-11-30", 25, 0, 43'200});

    const auto second = reserve_durably(*book, "a", 75, budget(100));
    clock.run(43'200);
    CHECK(book->spent("a").day == window_spend{"2026-12-01", 0, 0, 86'400});
    CHECK(book->spent("a").month.label == "2026-12");
    settle_durably(*book, second, 80);
    CHECK(book->count().overruns == 1);
    CHECK(book->count().overrun == 5);
    CHECK(book->history("a").days == std::vector{past_window{"2026-11-30", 105}});
    settle_durably(*book, reserve_durably(*book, "a", 10), -1);
    CHECK(book->count().reservations_open == 0);
  }
  const auto book = open_good(settings_for(folder.path(), clock));
  CHECK(book->recovered().reservations_charged == 0);
  CHECK(book->history("a").days ==
        std::vector{past_window{"2026-11-30", 105}, past_window{"2026-12-01", 10}});
  CHECK(book->history("a").spent == 115);
  CHECK(reserve_durably(*book, "b", 1) == 4);
}

TEST_CASE("what is open when a run ends is charged as reserved, reported and listed") {
  const testing::temp_dir folder;
  hand_clock clock;
  {
    const auto book = open_good(settings_for(folder.path(), clock));
    reserve_durably(*book, "b", 30);
    reserve_durably(*book, "a", 10);
    reserve_durably(*book, "a", 20);
    settle_durably(*book, reserve_durably(*book, "a", 5), 4);
  }
  clock.run(60);
  {
    const auto book = open_good(settings_for(folder.path(), clock));
    CHECK(book->recovered().reservations_charged == 3);
    CHECK(book->recovered().charged == 60);
    CHECK(book->recovered().accounts == std::vector{account_charge{"a", 2, 30}, account_charge{"b", 1, 30}});
    CHECK(book->spent("a").day == window_spend{"2026-11-30", 34, 0, 43'140});
    REQUIRE(book->charged().size() == 3);
    CHECK(book->charged()[0] == charged_reservation{3, "a", "request", 20, k_noon_s, k_noon_s + 60});
    settle_durably(*book, 3, 0);
    CHECK(book->spent("a").day.spent == 34);
  }
  const auto book = open_good(settings_for(folder.path(), clock));
  CHECK(book->recovered().reservations_charged == 0);
  CHECK(book->charged().size() == 3);
}

TEST_CASE("the list of charged reservations keeps the last ones") {
  const testing::temp_dir folder;
  hand_clock clock;
  for (const std::size_t opened : {700, 700, 1500}) {
    const auto book = open_good(settings_for(folder.path(), clock));
    for (std::size_t i = 0; i + 1 < opened; ++i) REQUIRE(book->reserve("a", {}, 1, "r", [](auto) {}));
    reserve_durably(*book, "a", 1);
  }
  const auto book = open_good(settings_for(folder.path(), clock));
  REQUIRE(book->charged().size() == k_charged_kept);
  CHECK(book->charged().front().id == 2900);
  CHECK(book->charged().back().id == 2900 - k_charged_kept + 1);
  CHECK(book->history("a").spent == 2900);
}

TEST_CASE("a request larger than the whole budget is told that it never fits") {
  const testing::temp_dir folder;
  hand_clock clock;
  const auto book = open_good(settings_for(folder.path(), clock));
  const auto refused = book->reserve("a", budget(0, 100), 101, "r", [](auto) {});
  REQUIRE_FALSE(refused);
  const auto& why = std::get<exhausted>(refused.error());
  CHECK(why.never_fits);
  CHECK(why.month);
  CHECK(book->count().refused_budget == 1);
  CHECK(book->reserve("a", {}, -1, "r", [](auto) {}).error() == refusal(fault::invalid));
  CHECK(book->reserve("", {}, 1, "r", [](auto) {}).error() == refusal(fault::invalid));
}

TEST_CASE("no jump of the wall clock opens a budget, while running or over a restart") {
  const testing::temp_dir folder;
  hand_clock clock;
  {
    const auto book = open_good(settings_for(folder.path(), clock));
    settle_durably(*book, reserve_durably(*book, "a", 100, budget(100)), 100);
    for (const std::int64_t jump_s : {-86'400, 86'400}) {
      clock.wall_s = k_noon_s + jump_s;
      CHECK_FALSE(book->reserve("a", budget(100), 1, "r", [](auto) {}));
    }
  }
  clock.wall_s = k_noon_s - 86'400;
  const auto book = open_good(settings_for(folder.path(), clock));
  CHECK(book->recovered().clock_behind_s == 86'400);
  CHECK(book->spent("a").day == window_spend{"2026-11-30", 100, 0, 86'400 + 43'200});
  CHECK_FALSE(book->reserve("a", budget(100), 1, "r", [](auto) {}));
}

TEST_CASE("old windows leave the disk") {
  const testing::temp_dir folder;
  hand_clock clock;
  {
    const auto book = open_good(settings_for(folder.path(), clock));
    settle_durably(*book, reserve_durably(*book, "a", 7), 7);
    clock.run(63 * 86'400);
    settle_durably(*book, reserve_durably(*book, "a", 1), 1);
    CHECK(book->history("a").days.size() == 1);
    CHECK(book->history("a").months.size() == 2);
  }
  const auto on_disk = read_folder(folder.path());
  CHECK(on_disk.sums.find("a")->days.all().size() == 1);
  CHECK(on_disk.sums.find("a")->months.all().size() == 2);
  CHECK(on_disk.sums.state().spent == 8);
}

TEST_CASE("full queue and full table refuse at once, and the end commits what waits") {
  const testing::temp_dir folder;
  hand_clock clock;
  auto with = settings_for(folder.path(), clock);
  with.queue_max = 4;
  with.reservations_open_max = 6;
  std::atomic<int> acknowledged = 0;
  int taken = 0, refused = 0;
  {
    const auto book = open_good(with);
    outcome entered;
    std::promise<void> hold;
    const auto held = hold.get_future().share();
    REQUIRE(book->put(key_of("k"), [held, told = entered.callback()](auto committed) mutable {
      told(committed);
      held.wait();  // keeps the commit thread, as a slow disk would
    }));
    REQUIRE(entered.wait());
    for (int i = 0; i < 10; ++i) {
      const auto got =
          book->reserve("a", {}, 1, "r", [&](auto ok) { acknowledged += ok.has_value() ? 1 : 0; });
      taken += got ? 1 : 0;
      refused += !got && got.error() == refusal(fault::overloaded) ? 1 : 0;
    }
    hold.set_value();
  }
  CHECK(taken == 4);
  CHECK(refused == 6);
  CHECK(acknowledged == 4);
  CHECK(read_folder(folder.path()).sums.open().size() == 4);

  const auto book = open_good(with);
  for (int i = 0; i < 6; ++i) reserve_durably(*book, "a", 1);
  CHECK(book->reserve("a", {}, 1, "r", [](auto) {}).error() == refusal(fault::overloaded));
}

}  // namespace weir::gateway::ledger
