// Pairs of shadow comparisons: kept over restarts, bounded in every way, and never in anybody's way.
#include <chrono>
#include <thread>

#include "tests/gateway/ledger/faulty_files.hpp"
#include "tests/gateway/ledger/support.hpp"

namespace weir::gateway::ledger {

namespace {

using policy::comparison::pair;

pair pair_at(std::int64_t at_s, std::int64_t price = 0) {
  pair out{.at_s = at_s, .model = "kimi", .tenant = "acme", .key = "ci"};
  out.primary = {.target = "own", .price = price, .unpriced = false};
  out.shadow = {.target = "hosted"};
  return out;
}

// Waits for what the commit thread does by itself; the deadline is only for a test that fails.
template <class Holds>
bool wait_until(Holds holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

std::vector<std::int64_t> prices_of(const std::vector<stored_pair>& pairs) {
  std::vector<std::int64_t> out;
  for (const auto& p : pairs) out.push_back(p.record->primary.price);
  return out;
}

settings pairs_at_once(const std::filesystem::path& folder, hand_clock& clock) {
  auto with = settings_for(folder, clock);
  with.pair_linger_ms = 0;
  return with;
}

}  // namespace

TEST_CASE("pairs are kept in their order, over restarts too") {
  const testing::temp_dir folder;
  hand_clock clock;
  {
    const auto book = open_good(settings_for(folder.path(), clock));
    for (int i = 1; i <= 3; ++i) REQUIRE(book->add(pair_at(k_noon_s, i)));
  }
  {
    const auto book = open_good(settings_for(folder.path(), clock));
    CHECK(prices_of(book->pairs({}, 10)) == std::vector<std::int64_t>{1, 2, 3});
    CHECK(*book->pairs({}, 1).front().record == pair_at(k_noon_s, 1));
    REQUIRE(book->add(pair_at(k_noon_s, 4)));
  }
  const auto book = open_good(settings_for(folder.path(), clock));
  const auto all = book->pairs({}, 10);
  CHECK(prices_of(all) == std::vector<std::int64_t>{1, 2, 3, 4});
  CHECK(prices_of(book->pairs(all[1].place, 10)) == std::vector<std::int64_t>{3, 4});
  CHECK(prices_of(book->pairs(all[1].place, 1)) == std::vector<std::int64_t>{3});
  CHECK(book->pairs(all[3].place, 10).empty());
  CHECK(book->count().pairs == 4);
}

TEST_CASE("pairs share batches, their own or those of others") {
  const testing::temp_dir folder;
  hand_clock clock;
  auto with = settings_for(folder.path(), clock);
  with.pair_linger_ms = 3'600'000;
  const auto book = open_good(with);
  for (int i = 0; i < 10; ++i) REQUIRE(book->add(pair_at(k_noon_s, i)));
  CHECK(book->pairs({}, 100).empty());
  CHECK(book->count().commits == 0);
  reserve_durably(*book, "a", 1);
  CHECK(book->pairs({}, 100).size() == 10);
  CHECK(book->count().commits == 1);
  // So many do not wait.
  for (std::size_t i = 0; i < k_pairs_per_batch; ++i) REQUIRE(book->add(pair_at(k_noon_s)));
  CHECK(wait_until([&] { return book->count().pairs == 10 + k_pairs_per_batch; }));
}

TEST_CASE("the oldest pairs go: by count, by age, and for good") {
  const testing::temp_dir folder;
  hand_clock clock;
  {
    const auto book = open_good(pairs_at_once(folder.path(), clock));
    book->keep_pairs({.count = 5, .days = 2});
    for (int i = 1; i <= 8; ++i) REQUIRE(book->add(pair_at(clock.wall_s, i)));
    REQUIRE(wait_until([&] {
      const auto kept = book->pairs({}, 100);
      return !kept.empty() && kept.back().record->primary.price == 8;
    }));
    CHECK(prices_of(book->pairs({}, 100)) == std::vector<std::int64_t>{4, 5, 6, 7, 8});
    clock.run(2 * 86'400);
    REQUIRE(book->add(pair_at(clock.wall_s, 9)));
    REQUIRE(wait_until([&] { return book->pairs({}, 100).back().record->primary.price == 9; }));
    CHECK(prices_of(book->pairs({}, 100)) == std::vector<std::int64_t>{5, 6, 7, 8, 9});
    clock.run(1);
    reserve_durably(*book, "a", 1);
    CHECK(prices_of(book->pairs({}, 100)) == std::vector<std::int64_t>{9});
  }
  const auto book = open_good(pairs_at_once(folder.path(), clock));
  CHECK(prices_of(book->pairs({}, 100)) == std::vector<std::int64_t>{9});
}

TEST_CASE("what is too much or cannot be stored is dropped and counted") {
  const testing::temp_dir folder;
  hand_clock clock;
  auto with = settings_for(folder.path(), clock);
  with.pair_linger_ms = 3'600'000;
  const auto book = open_good(with);
  auto bad = pair_at(k_noon_s);
  bad.shadow.excerpt.assign(k_excerpt_bytes_max + 1, 'x');
  CHECK(book->add(bad) == std::unexpected(fault::invalid));
  bad = pair_at(-1);
  CHECK(book->add(bad) == std::unexpected(fault::invalid));
  bad = pair_at(k_noon_s, -1);
  CHECK(book->add(bad) == std::unexpected(fault::invalid));
  bad = pair_at(k_noon_s);
  bad.alike.overlap = 1.5;
  CHECK(book->add(bad) == std::unexpected(fault::invalid));
  CHECK(book->count().pairs_dropped == 4);
  // More than the commit thread takes meanwhile: some are refused, each is kept or counted.
  constexpr std::size_t k_many = 20'000;
  book->keep_pairs({.count = k_many, .days = 30});
  std::size_t taken = 0;
  for (std::size_t i = 0; i < k_many; ++i) taken += book->add(pair_at(k_noon_s)) ? 1 : 0;
  CHECK(book->count().pairs_dropped == 4 + k_many - taken);
  reserve_durably(*book, "a", 1);  // budgets go on meanwhile
}

TEST_CASE("a disk that is full takes no pairs, and costs none that it has") {
  const testing::temp_dir folder;
  hand_clock clock;
  disk_faults disk;
  const auto env = make_faulty_env(disk);
  auto with = pairs_at_once(folder.path(), clock);
  with.env = env.get();
  with.write_buffer_bytes = std::size_t{256} << 10;
  const auto book = open_good(with);
  REQUIRE(book->add(pair_at(k_noon_s, 1)));
  REQUIRE(wait_until([&] { return book->count().pairs == 1; }));
  disk.space_bytes = 0;
  REQUIRE(book->add(pair_at(k_noon_s, 2)));
  REQUIRE(wait_until([&] { return book->health().reason == fault::full_disk; }));
  CHECK(book->add(pair_at(k_noon_s, 3)) == std::unexpected(fault::full_disk));
  CHECK(book->count().pairs_dropped == 2);
  disk.space_bytes = disk_faults::k_endless;
  REQUIRE(wait_until([&] { return !book->health().reason; }));
  REQUIRE(book->add(pair_at(k_noon_s, 4)));
  REQUIRE(wait_until([&] { return book->pairs({}, 10).back().record->primary.price == 4; }));
  // The second may be there: a batch that failed may still have reached the disk.
  const auto kept = prices_of(book->pairs({}, 10));
  CHECK(kept.front() == 1);
  CHECK(kept.size() <= 3);
}

TEST_CASE("pairs of a ledger that nobody has open can be read, and nothing changes") {
  const testing::temp_dir folder;
  hand_clock clock;
  CHECK(ledger::read_pairs(folder.path()).error().find("no ledger") != std::string::npos);
  {
    const auto book = open_good(settings_for(folder.path(), clock));
    REQUIRE(book->add(pair_at(k_noon_s, 1)));
    CHECK(ledger::read_pairs(folder.path()).error().find("in use") != std::string::npos);
    reserve_durably(*book, "a", 7);  // stays open
  }
  for (int i = 0; i < 2; ++i) {
    const auto read = ledger::read_pairs(folder.path());
    REQUIRE(read);
    CHECK(prices_of(*read) == std::vector<std::int64_t>{1});
  }
  const auto book = open_good(settings_for(folder.path(), clock));
  CHECK(book->recovered().reservations_charged == 1);  // by this start, not by the readers
}

}  // namespace weir::gateway::ledger
