// Readers against writers: growth, reclaim, chunks that move, clears. ThreadSanitizer watches; what is
// checked is what holds at any moment.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "prefix_index/replica_model.hpp"
#include "tests/prefix_index/chains.hpp"

namespace weir::prefix_index {
namespace {

TEST_CASE("lookups beside dispatches, events and clears see only what was written") {
  constexpr std::uint32_t k_replicas = 12;
  constexpr int k_rounds = 400;
  residency_index index({.bytes_max = k_index_bytes_min});
  chain_maker common(1);
  const auto pinned = common.fresh_chain(300);  // held by replica 0 all the time
  index.set_evidence(0, evidence::events, evidence::events);
  index.pages_added(0, pinned, 0, kv_medium::device, {});
  index.checkpoint_added(0, boundary_of(pinned, 199), kv_medium::device);

  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> wrong = 0;
  std::atomic<std::uint64_t> lookups = 0;
  const auto reader = [&] {
    std::vector<replica_id> asked(k_replicas);
    for (replica_id r = 0; r < k_replicas; ++r) asked[r] = r;
    std::vector<holding> out(k_replicas);
    do {
      const auto facts = index.find(pinned, asked, out);
      wrong += facts.seen_units != 300 || out[0].pages != 300 || out[0].checkpoint != 200;
      for (const auto& o : out) wrong += o.pages > 300 || o.checkpoint > o.pages;
      ++lookups;
    } while (!stop.load());
  };
  const auto model_writer = [&](replica_id first) {
    chain_maker chains(first);
    replica_model a(index, first, {.capacity_tokens = 64 * 2000, .keeps = retention::prompt_end});
    replica_model b(index, first + 1, {.capacity_tokens = 64 * 2000, .keeps = retention::dense});
    for (int round = 0; round < k_rounds; ++round) {
      auto chain = chains.below(2) == 0 ? chains.fresh_chain(200) : pinned;
      chain.resize(chains.below(200) + 1);
      a.dispatched(chain);
      b.dispatched(chain);
      if (chains.below(20) == 0) index.clear(first);
    }
  };
  const auto event_writer = [&](replica_id replica) {
    chain_maker chains(replica);
    index.set_evidence(replica, evidence::events, evidence::events);
    for (int round = 0; round < k_rounds; ++round) {
      const auto chain = chains.below(2) == 0 ? chains.fresh_chain(200) : pinned;
      std::vector<record_id> ids(chain.size());
      index.pages_added(replica, chain, 0, kv_medium::device, ids);
      index.checkpoint_added(replica, boundary_of(chain, chains.below(200)), kv_medium::device);
      index.pages_removed(replica, ids, kv_medium::device);
      if (chains.below(30) == 0) index.clear(replica);
    }
  };
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) readers.emplace_back(reader);
  std::vector<std::thread> writers;
  writers.emplace_back(model_writer, static_cast<replica_id>(1));
  writers.emplace_back(model_writer, static_cast<replica_id>(3));
  writers.emplace_back(event_writer, static_cast<replica_id>(5));
  writers.emplace_back(event_writer, static_cast<replica_id>(6));
  for (auto& t : writers) t.join();
  stop = true;
  for (auto& t : readers) t.join();
  CHECK(lookups > 0);
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace weir::prefix_index
