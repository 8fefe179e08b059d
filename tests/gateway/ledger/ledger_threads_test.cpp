#include <random>
#include <thread>
#include <vector>

#include "tests/gateway/ledger/support.hpp"

namespace weir::gateway::ledger {

namespace {

constexpr int k_threads = 200;
constexpr int k_requests = 25;  // of each
constexpr usd_nano k_price = k_dollar / 50;

struct tally {
  std::atomic<usd_nano> held{0};  // reserved or spent, as the callers know it
  std::atomic<usd_nano> highest{0};
  std::atomic<usd_nano> spent{0};
  std::atomic<int> admitted{0}, refused{0};
};

void raise_to(std::atomic<usd_nano>& highest, usd_nano value) {
  auto seen = highest.load();
  while (seen < value && !highest.compare_exchange_weak(seen, value)) {
  }
}

// A caller of which some requests end well, some abort before they are durable, some cost less.
void call(ledger& book, std::uint32_t seed, tally& sums) {
  std::minstd_rand random(seed);
  for (int i = 0; i < k_requests; ++i) {
    std::promise<void> durable;
    const auto id = book.reserve("a", budget(k_dollar), k_price, "r", [&](auto) { durable.set_value(); });
    if (!id) {
      ++sums.refused;
      continue;
    }
    ++sums.admitted;
    raise_to(sums.highest, sums.held += k_price);
    const bool aborts = random() % 4 == 0;
    const usd_nano actual = aborts ? 0 : random() % (k_price / 4);
    if (!aborts) durable.get_future().wait();
    sums.held -= k_price - actual;
    sums.spent += actual;
    book.settle(*id, actual);
    if (aborts) durable.get_future().wait();
  }
}

}  // namespace

TEST_CASE("200 parallel callers never reserve beyond a budget of one dollar, and nothing stays reserved") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  const testing::temp_dir folder;
  hand_clock clock;
  tally sums;
  {
    const auto book = open_good(settings_for(folder.path(), clock));
    {
      std::vector<std::jthread> threads;
      for (std::uint32_t i = 0; i < k_threads; ++i) {
        threads.emplace_back([&book, &sums, seed, i] { call(*book, seed + i, sums); });
      }
    }
    CHECK(book->spent("a").day.reserved == 0);
    CHECK(book->spent("a").day.spent == sums.spent);
    CHECK(book->spent("a").month.reserved == 0);
    CHECK(book->count().reservations_open == 0);
  }
  CHECK(sums.highest <= k_dollar);
  CHECK(sums.spent <= k_dollar);
  CHECK(sums.admitted > 50);
  CHECK(sums.refused > 0);
  const auto on_disk = read_folder(folder.path());
  CHECK(on_disk.sums.open().empty());
  CHECK(on_disk.sums.state().spent == sums.spent);
  CHECK(on_disk.sums.state().settled == static_cast<std::uint64_t>(sums.admitted));
}

}  // namespace weir::gateway::ledger
