#include "gateway/upstream/outage_log.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

namespace weir::gateway::upstream {
namespace {

using std::chrono::seconds;

TEST_CASE("an outage is told once, then now and then, then its end") {
  outage_log log;
  const outage_log::time_point begin{seconds(1000)};
  CHECK_FALSE(log.recovered());
  CHECK(log.failed(begin) == 0);
  for (int i = 0; i < 6262; ++i) CHECK_FALSE(log.failed(begin + seconds(3)));
  CHECK(log.failed(begin + k_outage_pause) == 6262);
  CHECK_FALSE(log.failed(begin + k_outage_pause));
  CHECK(log.recovered() == 1);
  CHECK_FALSE(log.recovered());
}

TEST_CASE("a target that goes and comes is not told each time") {
  outage_log log;
  const outage_log::time_point begin{seconds(1000)};
  int lines = 0;
  for (int i = 0; i < 1000; ++i) {
    lines += log.failed(begin).has_value() ? 1 : 0;
    lines += log.recovered().has_value() ? 1 : 0;
  }
  CHECK(lines == 2);
  CHECK(log.failed(begin + k_outage_pause) == 999);
}

TEST_CASE("of many threads one tells") {
  outage_log log;
  const outage_log::time_point begin{seconds(1000)};
  std::atomic<int> lines = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) lines += log.failed(begin) ? 1 : 0;
    });
  }
  for (auto& t : threads) t.join();
  CHECK(lines == 1);
  CHECK(log.failed(begin + k_outage_pause) == 3999);
}

}  // namespace
}  // namespace weir::gateway::upstream
