#include <cstdio>
#include <memory>

#include "prefix_index/bench/measures.hpp"
#include "prefix_index/bench/support.hpp"
#include "prefix_index/replica_model.hpp"

namespace weir::prefix_index {

namespace {

constexpr replica_id k_replicas = 8;

void print_row(const char* what, double bytes, std::size_t count, const residency_index& index) {
  std::printf("%-58s %7.1f B   (tables, records and entries: %.0f MiB)\n", what,
              bytes / static_cast<double>(count), static_cast<double>(index.stats().bytes) / (1 << 20));
}

void measure_simulated(std::size_t keys, retention keeps, const char* name) {
  const double start = resident_bytes();
  residency_index index({.bytes_max = k_bench_bytes_max});
  std::vector<std::unique_ptr<replica_model>> models;
  for (replica_id r = 0; r < k_replicas; ++r) {
    models.push_back(std::make_unique<replica_model>(
        index, r, replica_model_options{.capacity_tokens = std::uint64_t{1} << 50, .keeps = keeps}));
  }
  std::vector<block_key> chain;
  double first = 0;
  for (replica_id r = 0; r < k_replicas; ++r) {
    for (std::uint64_t c = 0; c < keys / k_bench_chain_units; ++c) {
      bench_chain(c, chain);
      models[r]->dispatched(chain);
    }
    if (r == 0) first = resident_bytes();
  }
  std::printf("%s\n", name);
  print_row("  key with one replica", first - start, keys, index);
  print_row("  each further (key, replica)", resident_bytes() - first, keys * (k_replicas - 1), index);
}

}  // namespace

void measure_memory(std::size_t keys) {
  std::printf("memory, resident, %zu keys in prompts of %zu units, 1 then %d replicas\n", keys,
              k_bench_chain_units, k_replicas);
  measure_simulated(keys, retention::dense, " simulated, dense");
  measure_simulated(keys, retention::prompt_end_second_sighting, " simulated, checkpoints at prompt ends");
}

}  // namespace weir::prefix_index
