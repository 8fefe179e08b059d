// Synced commits per second: one at a time, which is one fsync each, against callers that share them.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "gateway/ledger/ledger.hpp"

namespace {

using namespace weir::gateway;  // NOLINT: a program is one file
using clock_type = std::chrono::steady_clock;

constexpr auto k_run = std::chrono::seconds(3);

struct outcome {
  double per_second = 0;
  double per_fsync = 0;
  std::int64_t median_us = 0, p99_us = 0;
};

// Each caller reserves, waits for `ok`, settles, and starts over.
void call(ledger::ledger& book, std::string account, clock_type::time_point until,
          std::vector<std::int64_t>& us) {
  std::binary_semaphore durable(0);
  while (clock_type::now() < until) {
    const auto start = clock_type::now();
    const auto id = book.reserve(account, {}, 1000, "request", [&](auto) { durable.release(); });
    if (!id) continue;
    durable.acquire();
    us.push_back(std::chrono::duration_cast<std::chrono::microseconds>(clock_type::now() - start).count());
    book.settle(*id, 900);
  }
}

outcome measure(const std::filesystem::path& folder, std::size_t callers) {
  auto opened = ledger::ledger::open({.folder = folder});
  if (!opened) {
    fmt::print(stderr, "{}\n", opened.error());
    std::exit(1);
  }
  auto& book = **opened;
  std::vector<std::vector<std::int64_t>> waits(callers);
  const auto start = clock_type::now();
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < callers; ++i) {
      threads.emplace_back([&, i] { call(book, fmt::format("key_{}", i % 50), start + k_run, waits[i]); });
    }
  }
  const std::chrono::duration<double> took = clock_type::now() - start;
  std::vector<std::int64_t> all;
  for (const auto& one : waits) all.insert(all.end(), one.begin(), one.end());
  std::sort(all.begin(), all.end());
  if (all.empty()) std::exit(1);
  const auto reserves = static_cast<double>(all.size());
  return {.per_second = reserves / took.count(),
          .per_fsync = reserves / static_cast<double>(book.count().commits),
          .median_us = all[all.size() / 2],
          .p99_us = all[all.size() * 99 / 100]};
}

}  // namespace

int main(int argc, char** argv) {
  std::string where = (argc > 1 ? std::string(argv[1]) : std::string(".")) + "/weir-ledger-bench.XXXXXX";
  if (::mkdtemp(where.data()) == nullptr) {
    fmt::print(stderr, "usage: weir-ledger-bench [folder that can be written]\n");
    return 1;
  }
  fmt::print("{:>8} {:>12} {:>8} {:>10} {:>10} {:>10}\n", "callers", "reserves/s", "ratio", "per fsync",
             "p50 us", "p99 us");
  double alone = 0;
  for (const std::size_t callers : {1, 4, 16, 64, 200}) {
    const auto got = measure(where + "/" + std::to_string(callers), callers);
    if (callers == 1) alone = got.per_second;
    fmt::print("{:>8} {:>12.0f} {:>7.1f}x {:>10.1f} {:>10} {:>10}\n", callers, got.per_second,
               got.per_second / alone, got.per_fsync, got.median_us, got.p99_us);
  }
  std::filesystem::remove_all(where);
  return 0;
}
