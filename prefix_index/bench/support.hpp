// What the bench's measurements share: a clock, resident memory, random keys. For the bench only.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <vector>

#include "prefix_index/residency_index.hpp"

namespace weir::prefix_index {

inline constexpr std::size_t k_bench_chain_units = 200;
inline constexpr std::size_t k_bench_bytes_max = std::size_t{4} << 30;

inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What one core spent on it: rates must not depend on what else the machine does.
inline double cpu_s() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

inline double resident_bytes() {
  std::ifstream in("/proc/self/statm");
  double total = 0;
  double resident = 0;
  in >> total >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

// The i-th of a set of keys that needs no memory: chains of k_bench_chain_units each.
inline block_key bench_key(std::uint64_t i) {
  const std::int32_t tokens[2] = {static_cast<std::int32_t>(i), static_cast<std::int32_t>(i >> 32)};
  return next_key({.low = 7, .high = 7}, tokens);
}

inline void bench_chain(std::uint64_t chain, std::vector<block_key>& out) {
  out.resize(k_bench_chain_units);
  for (std::size_t u = 0; u < out.size(); ++u) out[u] = bench_key(chain * k_bench_chain_units + u);
}

// `keys` keys held by one event replica.
inline void preload(residency_index& index, std::size_t keys, replica_id replica) {
  index.set_evidence(replica, evidence::events, evidence::implied);
  std::vector<block_key> chain;
  for (std::uint64_t c = 0; c < keys / k_bench_chain_units; ++c) {
    bench_chain(c, chain);
    index.pages_added(replica, chain, 0, kv_medium::device, {});
  }
}

}  // namespace weir::prefix_index
