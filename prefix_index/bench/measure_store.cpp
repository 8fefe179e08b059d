#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "prefix_index/bench/measures.hpp"
#include "prefix_index/bench/support.hpp"
#include "prefix_index/index_store.hpp"

namespace weir::prefix_index {

namespace {

constexpr replica_id k_replica = 1;
constexpr std::uint64_t k_record_bytes = 17 + 4 + 8;  // key, depth, one entry

// Bytes that this process has given to the disk.
double written_bytes() {
  std::ifstream in("/proc/self/io");
  std::string name;
  double value = 0;
  while (in >> name >> value) {
    if (name == "write_bytes:") return value;
  }
  return 0;
}

struct store_life {
  explicit store_life(const std::filesystem::path& folder)
      : index({.bytes_max = k_bench_bytes_max}),
        model(index, k_replica, {.capacity_tokens = std::uint64_t{1} << 50}),
        store(index, folder, {{.name = "replica", .id = k_replica, .model = &model}}) {}

  residency_index index;
  replica_model model;
  index_store store;
};

}  // namespace

void measure_store(const std::filesystem::path& folder, std::size_t keys) {
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const double written_before = written_bytes();
  const double start = now_s();
  {
    store_life life(folder);
    std::vector<block_key> chain;
    for (std::uint64_t p = 0; p < keys / k_bench_chain_units; ++p) {
      bench_chain(p, chain);
      life.model.dispatched(chain);
      life.store.changed(chain);
      if (p % 4096 == 0) life.store.flush();
    }
    life.store.flush();
    std::printf("store: %zu keys written behind at %.2f M keys/s, dropped %llu\n", keys,
                static_cast<double>(keys) / (now_s() - start) / 1e6,
                static_cast<unsigned long long>(life.store.counters().keys_dropped));
  }
  std::printf(
      "  write amplification %.1f (bytes to disk, log and compactions included, per byte of records)\n",
      (written_bytes() - written_before) / static_cast<double>(keys * k_record_bytes));
}

void measure_restart(const std::filesystem::path& folder) {
  const double start = now_s();
  const double cpu_start = cpu_s();
  const store_life again(folder);
  std::printf("  warm restart: %llu keys in %.1f s (%.1f s of one core), model holds %llu tokens\n",
              static_cast<unsigned long long>(again.store.counters().keys_loaded), now_s() - start,
              cpu_s() - cpu_start, static_cast<unsigned long long>(again.model.used_tokens()));
}

}  // namespace weir::prefix_index
