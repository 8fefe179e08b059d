#include <map>
#include <random>
#include <thread>

#include "tests/gateway/ledger/faulty_files.hpp"
#include "tests/gateway/ledger/support.hpp"

namespace weir::gateway::ledger {

namespace {

struct faulty_ledger {
  testing::temp_dir folder;
  hand_clock clock;
  disk_faults disk;
  std::unique_ptr<rocksdb::Env> env = make_faulty_env(disk);
  std::unique_ptr<ledger> book;

  faulty_ledger() { open(); }
  void open() {
    auto with = settings_for(folder.path(), clock);
    with.env = env.get();
    with.write_buffer_bytes = std::size_t{256} << 10;
    book = open_good(with);
  }
  void free_space() { disk.space_bytes = disk_faults::k_endless; }
};

// What the ledger's callers know: only what was acknowledged.
struct caller {
  ledger& book;
  std::map<reservation_id, usd_nano> open;
  usd_nano settled = 0;
  std::map<std::string, std::int64_t> keys;  // by created_s

  std::expected<void, fault> reserve(usd_nano amount) {
    outcome told;
    const auto id = book.reserve("a", {}, amount, "r", told.callback());
    if (!id) return std::unexpected(std::get<fault>(id.error()));
    const auto durable = told.wait();
    if (durable) open.emplace(*id, amount);
    return durable;
  }
  void settle_one(usd_nano actual) {
    if (open.empty()) return;
    book.settle(open.begin()->first, actual);
    settled += actual;
    open.erase(open.begin());
  }
  std::expected<void, fault> put(const std::string& id, std::int64_t created_s) {
    outcome told;
    auto durable = book.put(auth::key_record{.id = id, .created_s = created_s}, told.callback());
    if (durable) durable = told.wait();
    if (durable) keys[id] = created_s;
    return durable;
  }
  usd_nano reserved() const {
    usd_nano sum = 0;
    for (const auto& [id, amount] : open) sum += amount;
    return sum;
  }
  void check() const {
    CHECK(book.spent("a").day.spent == settled);
    CHECK(book.spent("a").day.reserved == reserved());
    CHECK(book.count().reservations_open == open.size());
    std::map<std::string, std::int64_t> there;
    for (const auto& key : book.keys()) there[key.id] = key.created_s;
    CHECK(there == keys);
  }
};

void wait_until_healthy(const ledger& book) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (book.health().reason) {
    REQUIRE(std::chrono::steady_clock::now() < until);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Random requests until the disk is full.
void fill(caller& who, std::minstd_rand& random) {
  for (int i = 0; i < 100'000; ++i) {
    const auto what = random() % 4;
    std::expected<void, fault> got;
    if (what == 0) got = who.put("key_" + std::to_string(random() % 5), i);
    if (what == 1) who.settle_one(random() % 50);
    if (what >= 2) got = who.reserve(random() % 100);
    if (got) continue;
    CHECK(got.error() == fault::full_disk);
    return;
  }
  FAIL("the disk never filled up");
}

}  // namespace

TEST_CASE("a full disk at a random append undoes what was not durable, refuses, recovers and loses nothing") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::minstd_rand random(seed);
  faulty_ledger at;
  caller who{.book = *at.book, .open = {}, .settled = 0, .keys = {}};
  for (int round = 0; round < 12; ++round) {
    INFO("round " << round);
    at.disk.space_bytes = random() % 60'000;
    fill(who, random);
    CHECK(at.book->health().reason == fault::full_disk);
    CHECK(at.book->health().detail.find(at.folder.path().string()) != std::string::npos);
    CHECK(who.reserve(1) == std::unexpected(fault::full_disk));
    CHECK(who.put("key_9", 1) == std::unexpected(fault::full_disk));
    who.settle_one(3);
    who.check();
    at.free_space();
    wait_until_healthy(*at.book);
    REQUIRE(who.reserve(5));
    who.check();
  }
  CHECK(at.book->count().full_disk == 12);
  at.book.reset();
  const auto on_disk = read_folder(at.folder.path());
  CHECK(on_disk.sums.state().spent == who.settled);
  REQUIRE(on_disk.sums.open().size() == who.open.size());
  for (const auto& [id, reservation] : on_disk.sums.open()) CHECK(who.open.at(id) == reservation->amount);
}

TEST_CASE("a full disk at the start is refused in words, before RocksDB meets it") {
  for (const bool is_new : {true, false}) {
    faulty_ledger at;
    if (!is_new) reserve_durably(*at.book, "a", 10);
    at.book.reset();
    if (is_new) std::filesystem::remove_all(at.folder.path());
    auto with = settings_for(at.folder.path(), at.clock);
    with.env = at.env.get();
    for (const std::int64_t space_bytes : {0, 100, 100'000, 4'000'000}) {
      INFO((is_new ? "new, " : "old, ") << space_bytes);
      at.disk.space_bytes = space_bytes;
      const auto opened = ledger::open(with);
      REQUIRE_FALSE(opened);
      CHECK(opened.error().find("no space for the ledger in " + at.folder.path().string()) !=
            std::string::npos);
    }
    at.free_space();
    at.open();
    CHECK(at.book->recovered().charged == (is_new ? 0 : 10));
  }
}

TEST_CASE("a full disk at the end charges what could not be settled") {
  faulty_ledger at;
  const auto first = reserve_durably(*at.book, "a", 10);
  const auto second = reserve_durably(*at.book, "a", 20);
  settle_durably(*at.book, first, 1);
  at.disk.space_bytes = 0;
  outcome told;
  at.book->settle(second, 2, told.callback());
  at.book.reset();
  CHECK(told.wait() == std::unexpected(fault::full_disk));
  at.free_space();
  at.open();
  CHECK(at.book->recovered().charged == 20);
  CHECK(at.book->spent("a").day.spent == 21);
}

TEST_CASE("a failed sync is final: nothing is acknowledged until a restart, which has all that was") {
  faulty_ledger at;
  const auto first = reserve_durably(*at.book, "a", 10);
  reserve_durably(*at.book, "a", 20);
  at.disk.sync_fails = true;
  outcome reserved, settled;
  REQUIRE(at.book->reserve("a", {}, 40, "r", reserved.callback()));
  CHECK(reserved.wait() == std::unexpected(fault::failed));
  at.disk.sync_fails = false;
  CHECK(at.book->health().reason == fault::failed);
  CHECK(at.book->health().detail.find("restart") != std::string::npos);
  CHECK(at.book->reserve("a", {}, 1, "r", [](auto) {}).error() == refusal(fault::failed));
  CHECK(at.book->put(auth::key_record{.id = "k"}, [](auto) {}) == std::unexpected(fault::failed));
  CHECK(at.book->spent("a").day.reserved == 30);
  at.book->settle(first, 1, settled.callback());
  CHECK(settled.wait() == std::unexpected(fault::failed));
  at.book.reset();
  at.open();
  // The batch whose sync failed may be there: charged, never lost the other way round.
  const auto charged = at.book->recovered().charged;
  CHECK((charged == 30 || charged == 70));
}

TEST_CASE("a batch that was reported as failed and is on the disk after all is undone there") {
  faulty_ledger at;
  caller who{.book = *at.book, .open = {}, .settled = 0, .keys = {}};
  REQUIRE(who.put("key_old", 1));
  REQUIRE(who.reserve(10));
  at.disk.sync_is_full = true;
  std::promise<void> hold;
  auto held = hold.get_future().share();
  outcome first, second, rotated, made;
  REQUIRE(at.book->reserve("a", {}, 40, "r", first.callback()));
  REQUIRE(first.wait() == std::unexpected(fault::full_disk));
  who.settle_one(7);
  at.disk.sync_is_full = false;
  wait_until_healthy(*at.book);
  who.check();

  REQUIRE(at.book->put(auth::tenant_record{.name = "t"}, [held, say = second.callback()](auto ok) mutable {
    say(ok);
    held.wait();
  }));
  REQUIRE(second.wait());
  at.disk.sync_is_full = true;
  REQUIRE(at.book->put(auth::key_record{.id = "key_new"}, made.callback()));
  REQUIRE(at.book->put(auth::key_record{.id = "key_old", .revoked = true}, rotated.callback()));
  hold.set_value();
  REQUIRE(made.wait() == std::unexpected(fault::full_disk));
  REQUIRE(rotated.wait() == std::unexpected(fault::full_disk));
  at.disk.sync_is_full = false;
  wait_until_healthy(*at.book);
  who.check();
  REQUIRE(who.put("key_old", 2));
  at.book.reset();
  const auto on_disk = read_folder(at.folder.path());
  CHECK(on_disk.sums.open().empty());
  CHECK(on_disk.sums.state().spent == 7);
  CHECK(on_disk.sums.state().voided == 1);
  CHECK(on_disk.sums.find("a")->sums.reservations == 2);  // it had been there
  REQUIRE(on_disk.keys.size() == 1);
  CHECK(on_disk.keys.at("key_old").created_s == 2);
}

TEST_CASE("a reserve that fails after its caller has already settled it leaves no trace") {
  faulty_ledger at;
  reserve_durably(*at.book, "a", 1);
  std::promise<void> hold;
  auto held = hold.get_future().share();
  outcome entered, told, settled;
  REQUIRE(at.book->put(auth::key_record{.id = "k"}, [held, say = entered.callback()](auto ok) mutable {
    say(ok);
    held.wait();
  }));
  REQUIRE(entered.wait());
  at.disk.space_bytes = 0;
  const auto id = at.book->reserve("a", {}, 50, "r", told.callback());
  REQUIRE(id);
  at.book->settle(*id, 30, settled.callback());
  CHECK(at.book->spent("a").day.spent == 30);
  hold.set_value();
  CHECK(told.wait() == std::unexpected(fault::full_disk));
  CHECK(settled.wait());
  CHECK(at.book->spent("a").day.spent == 0);
  CHECK(at.book->spent("a").day.reserved == 1);
  at.free_space();
  wait_until_healthy(*at.book);
  CHECK(reserve_durably(*at.book, "a", 1) == *id + 1);
  at.book.reset();
  const auto on_disk = read_folder(at.folder.path());
  CHECK(on_disk.sums.state().voided == 1);
  CHECK(on_disk.sums.state().spent == 0);
}

}  // namespace weir::gateway::ledger
