#include <malloc.h>

#include <cstdio>
#include <functional>
#include <memory>

#include "prefix_index/bench/measures.hpp"
#include "prefix_index/bench/support.hpp"
#include "prefix_index/event_source.hpp"
#include "prefix_index/replica_model.hpp"

namespace weir::prefix_index {

namespace {

constexpr replica_id k_replicas = 8;

void print_row(const char* what, double bytes, std::size_t count) {
  std::printf("    %-40s %6.1f B\n", what, bytes / static_cast<double>(count));
}

// hold(replica, prompt) makes the replica hold that prompt; each prompt comes to all replicas in turn before
// the next one, as hot prefixes do, or else replica by replica, the worst order for entries that move as they
// grow.
void measure_pairs(std::size_t keys, bool prompt_by_prompt,
                   const std::function<void(replica_id, std::uint64_t)>& hold) {
  const auto prompts = keys / k_bench_chain_units;
  const double start = resident_bytes();
  for (std::uint64_t p = 0; p < prompts; ++p) hold(0, p);
  const double first = resident_bytes();
  if (prompt_by_prompt) {
    for (std::uint64_t p = 0; p < prompts; ++p) {
      for (replica_id r = 1; r < k_replicas; ++r) hold(r, p);
    }
  } else {
    for (replica_id r = 1; r < k_replicas; ++r) {
      for (std::uint64_t p = 0; p < prompts; ++p) hold(r, p);
    }
  }
  print_row("a key with its first replica", first - start, keys);
  print_row("each further (key, replica)", resident_bytes() - first, keys * (k_replicas - 1));
}

void measure_simulated(std::size_t keys, retention keeps, bool prompt_by_prompt) {
  residency_index index({.bytes_max = k_bench_bytes_max});
  std::vector<std::unique_ptr<replica_model>> models;
  for (replica_id r = 0; r < k_replicas; ++r) {
    models.push_back(std::make_unique<replica_model>(
        index, r, replica_model_options{.capacity_tokens = std::uint64_t{1} << 50, .keeps = keeps}));
  }
  std::vector<block_key> chain;
  measure_pairs(keys, prompt_by_prompt, [&](replica_id r, std::uint64_t p) {
    bench_chain(p, chain);
    models[r]->dispatched(chain);
  });
}

void measure_events(std::size_t keys) {
  residency_index index({.bytes_max = k_bench_bytes_max});
  std::vector<std::unique_ptr<event_source>> sources;
  for (replica_id r = 0; r < k_replicas; ++r) {
    sources.push_back(std::make_unique<event_source>(
        index, r, event_source_options{},
        [](std::string_view, std::string_view) { return std::optional(block_key{.low = 7, .high = 7}); }));
  }
  std::vector<std::uint64_t> sequences(k_replicas);
  kv_batch batch;
  auto& stored =
      std::get<kv_stored>(batch.events.emplace_back(kv_stored{.block_tokens = k_unit_tokens_default}));
  stored.hashes.resize(k_bench_chain_units);
  stored.tokens.resize(k_bench_chain_units * k_unit_tokens_default);
  const double start = cpu_s();
  measure_pairs(keys, true, [&](replica_id r, std::uint64_t p) {
    for (std::size_t u = 0; u < stored.hashes.size(); ++u) {
      stored.hashes[u] = bench_key(p * k_bench_chain_units + u).high;
    }
    stored.tokens[0] = static_cast<std::int32_t>(p);
    sources[r]->received(sequences[r]++, batch);
  });
  std::printf("    events applied, hashing of 64 tokens each included: %.2f M blocks/s\n",
              static_cast<double>(keys) * k_replicas / (cpu_s() - start) / 1e6);
  std::size_t maps = 0;
  for (const auto& source : sources) maps += source->bookkeeping_bytes();
  print_row("of it the map of engine hashes", static_cast<double>(maps), keys * k_replicas);
}

}  // namespace

void measure_memory(std::size_t keys) {
  std::printf("resident memory, %zu keys in prompts of %zu units, then 7 more replicas for each\n", keys,
              k_bench_chain_units);
  std::printf("  simulated, dense\n");
  measure_simulated(keys, retention::dense, true);
  ::malloc_trim(0);
  std::printf("  simulated, checkpoints at prompt ends and second sightings\n");
  measure_simulated(keys, retention::prompt_end_second_sighting, true);
  ::malloc_trim(0);
  std::printf("  simulated, dense, replica by replica\n");
  measure_simulated(keys, retention::dense, false);
  ::malloc_trim(0);
  std::printf("  events, blocks of one unit, map of engine hashes included\n");
  measure_events(keys);
  ::malloc_trim(0);
}

}  // namespace weir::prefix_index
