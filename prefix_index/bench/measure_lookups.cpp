#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>

#include "prefix_index/bench/measures.hpp"
#include "prefix_index/bench/support.hpp"
#include "prefix_index/bench/trace.hpp"
#include "prefix_index/replica_model.hpp"

namespace weir::prefix_index {

namespace {

constexpr replica_id k_trace_replicas = 8;
constexpr replica_id k_preload_replica = 1000;
constexpr std::uint64_t k_replica_tokens = 2'560'000;  // 5,000 blocks of 512

struct trace_result {
  std::uint64_t stored = 0;
  std::uint64_t returned = 0;
  std::uint64_t probes = 0;
  std::vector<double> find_us;
  std::vector<double> dispatch_us;
  double seconds = 0;
};

double quantile(std::vector<double>& values, double q) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

// Each prompt goes where most of it lies, if that is a quarter of it, else to the next replica in turn.
trace_result replay(residency_index& index, const std::vector<std::vector<block_key>>& chains,
                    retention keeps, std::uint32_t unit_tokens) {
  std::vector<std::unique_ptr<replica_model>> models;
  std::vector<replica_id> asked;
  for (replica_id r = 0; r < k_trace_replicas; ++r) {
    asked.push_back(r);
    models.push_back(std::make_unique<replica_model>(
        index, r,
        replica_model_options{
            .capacity_tokens = k_replica_tokens, .unit_tokens = unit_tokens, .keeps = keeps}));
    models.back()->clear();
  }
  std::vector<holding> out(asked.size());
  trace_result result;
  const double start = cpu_s();
  for (std::size_t i = 0; i < chains.size(); ++i) {
    const double t0 = now_s();
    result.probes += index.find(chains[i], asked, out).probes;
    const double t1 = now_s();
    const auto best = std::max_element(out.begin(), out.end(),
                                       [](const holding& a, const holding& b) { return a.pages < b.pages; });
    const auto target = best->pages * 4 >= chains[i].size() ? static_cast<std::size_t>(best - out.begin())
                                                            : i % k_trace_replicas;
    models[target]->dispatched(chains[i]);
    result.dispatch_us.push_back((now_s() - t1) * 1e6);
    result.find_us.push_back((t1 - t0) * 1e6);
    result.returned += best->pages;
    result.stored += chains[i].size();
  }
  result.seconds = cpu_s() - start;
  return result;
}

}  // namespace

void measure_trace(const std::filesystem::path& trace, std::size_t keys) {
  residency_index index({.bytes_max = k_bench_bytes_max});
  const double start = now_s();
  preload(index, keys, k_preload_replica);
  std::printf("trace %s, %d replicas of %llu tokens, %zu other keys preloaded (%.1f s)\n",
              trace.filename().c_str(), k_trace_replicas, static_cast<unsigned long long>(k_replica_tokens),
              keys, now_s() - start);
  for (const std::uint32_t units : {1U, 8U}) {
    const auto chains = read_trace(trace, units);
    for (const auto keeps : {retention::dense, retention::prompt_end_second_sighting}) {
      auto r = replay(index, chains, keeps, 512 / units);
      const auto blocks = static_cast<double>(r.stored + r.returned);
      std::printf(
          "  %u unit%s per 512-token block, %s: %.2f M blocks/s (%llu stored, %llu returned, %.3f s)\n",
          units, units == 1 ? " " : "s", keeps == retention::dense ? "dense" : "checkpoints",
          blocks / r.seconds / 1e6, static_cast<unsigned long long>(r.stored),
          static_cast<unsigned long long>(r.returned), r.seconds);
      std::printf(
          "    probes per lookup %.1f; find p50 %.1f us p99 %.1f us; dispatch p50 %.1f us p99 %.1f us\n",
          static_cast<double>(r.probes) / static_cast<double>(chains.size()), quantile(r.find_us, 0.5),
          quantile(r.find_us, 0.99), quantile(r.dispatch_us, 0.5), quantile(r.dispatch_us, 0.99));
    }
  }
}

namespace {

// Every replica holds one of `depths` prefixes of each prompt, and two checkpoints in it.
void measure_long_prompt_at(residency_index& index, std::size_t depths, std::uint64_t seed) {
  constexpr std::uint32_t k_units = 16'384;
  constexpr replica_id k_replicas = 64;
  constexpr int k_prompts = 12;
  constexpr int k_rounds = 2000;
  std::mt19937_64 random(seed);
  std::vector<std::vector<block_key>> prompts(k_prompts);
  std::vector<replica_id> asked(k_replicas);
  for (replica_id r = 0; r < k_replicas; ++r) {
    asked[r] = r;
    index.set_evidence(r, evidence::events, evidence::events);
  }
  for (auto& prompt : prompts) {
    for (std::uint32_t u = 0; u < k_units; ++u) prompt.push_back({.low = random(), .high = random()});
    std::vector<std::uint32_t> pages(depths);
    for (auto& p : pages) p = static_cast<std::uint32_t>(1 + random() % k_units);
    for (const auto r : asked) {
      const auto held = pages[r % depths];
      index.pages_added(r, std::span(prompt).first(held), 0, kv_medium::device, {});
      for (int k = 0; k < 2; ++k) {
        const auto unit = static_cast<std::uint32_t>(random() % held);
        index.checkpoint_added(r, boundary_of(prompt, unit), kv_medium::device);
      }
    }
  }
  std::vector<holding> out(k_replicas);
  std::vector<double> us;
  std::vector<double> cpu_us;
  std::uint64_t probes = 0;
  for (int round = 0; round < k_rounds; ++round) {
    const auto& prompt = prompts[random() % k_prompts];
    const double cpu_start = cpu_s();
    const double start = now_s();
    probes += index.find(prompt, asked, out).probes;
    us.push_back((now_s() - start) * 1e6);
    cpu_us.push_back((cpu_s() - cpu_start) * 1e6);
  }
  std::printf("1M-token prompt (%u keys), %d replicas at %zu depths, 128 checkpoints: %.0f probes\n", k_units,
              k_replicas, depths, static_cast<double>(probes) / k_rounds);
  std::printf("  find p50 %.0f us p99 %.0f us by the wall, p50 %.0f us p99 %.0f us of processor time\n",
              quantile(us, 0.5), quantile(us, 0.99), quantile(cpu_us, 0.5), quantile(cpu_us, 0.99));
}

}  // namespace

void measure_long_prompt(std::size_t keys) {
  residency_index index({.bytes_max = k_bench_bytes_max});
  preload(index, keys, k_preload_replica);
  for (const std::size_t depths : {4, 16, 64}) measure_long_prompt_at(index, depths, depths);
}

}  // namespace weir::prefix_index
