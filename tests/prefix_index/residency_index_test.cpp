#include "prefix_index/residency_index.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "prefix_index/replica_model.hpp"
#include "tests/prefix_index/chains.hpp"

namespace weir::prefix_index {
namespace {

constexpr auto k_device = kv_medium::device;

void use_events(residency_index& index, std::uint32_t replica_count) {
  for (replica_id r = 0; r < replica_count; ++r) index.set_evidence(r, evidence::events, evidence::events);
}

holding lookup(const residency_index& index, std::span<const block_key> chain, replica_id replica = 0) {
  holding out;
  index.find(chain, std::span(&replica, 1), std::span(&out, 1));
  return out;
}

// Pages and checkpoints of each replica by key, walked unit by unit.
class slow_index {
 public:
  std::map<std::uint64_t, std::map<replica_id, int>> pages;
  std::map<std::uint64_t, std::set<replica_id>> checkpoints;
  std::set<std::uint64_t> seen;

  holding find(std::span<const block_key> chain, replica_id r) const {
    holding out;
    for (const auto& key : chain) {
      const auto at = pages.find(key.low);
      if (at == pages.end() || !at->second.contains(r)) break;
      ++out.pages;
    }
    for (out.checkpoint = out.pages; out.checkpoint > 0; --out.checkpoint) {
      const auto at = checkpoints.find(chain[out.checkpoint - 1].low);
      if (at != checkpoints.end() && at->second.contains(r)) break;
    }
    return out;
  }
};

TEST_CASE("a lookup over many replicas agrees with a walk, for prefix-closed residency") {
  constexpr std::uint32_t k_replicas = 70;
  for (const std::uint32_t units_max : {5U, 40U, 3000U}) {
    INFO("units_max " << units_max);
    chain_maker chains(units_max);
    residency_index index;
    use_events(index, k_replicas);
    slow_index slow;
    std::vector<replica_id> asked(k_replicas);
    for (replica_id r = 0; r < k_replicas; ++r) asked[r] = r;
    std::vector<holding> found(k_replicas);
    for (int round = 0; round < (units_max > 1000 ? 60 : 400); ++round) {
      const auto chain = chains.next(units_max);
      const auto facts = index.find(chain, asked, found);
      std::uint32_t seen = 0;
      while (seen < chain.size() && slow.seen.contains(chain[seen].low)) ++seen;
      REQUIRE(facts.seen_units == seen);
      for (const auto r : asked) {
        const auto expected = slow.find(chain, r);
        REQUIRE(found[r].pages == expected.pages);
        REQUIRE(found[r].checkpoint == expected.checkpoint);
        REQUIRE((found[r].pages_from == confidence::confirmed) == (expected.pages > 0));
      }
      const auto r = static_cast<replica_id>(chains.below(k_replicas));
      if (chain.empty()) continue;
      const auto stored = 1 + chains.below(static_cast<std::uint32_t>(chain.size()));
      index.pages_added(r, std::span(chain).first(stored), 0, k_device, {});
      for (std::uint32_t u = 0; u < stored; ++u) {
        slow.pages[chain[u].low][r] += 1;
        slow.seen.insert(chain[u].low);
      }
      for (int k = 0; k < 2; ++k) {
        const auto unit = chains.below(stored);
        index.checkpoint_added(r, boundary_of(chain, unit), k_device);
        slow.checkpoints[chain[unit].low].insert(r);
      }
    }
  }
}

TEST_CASE("a hole just below the frontier shortens the match") {
  chain_maker chains(1);
  residency_index index;
  use_events(index, 1);
  const auto chain = chains.fresh_chain(100);
  std::vector<record_id> ids(chain.size());
  index.pages_added(0, chain, 0, k_device, ids);
  REQUIRE(lookup(index, chain).pages == 100);
  index.pages_removed(0, std::span(ids).subspan(98, 1), k_device);
  CHECK(lookup(index, chain).pages == 98);
  index.pages_removed(0, std::span(ids).subspan(0, 1), k_device);
  CHECK(lookup(index, chain).pages == 0);
}

TEST_CASE("large holes are found wherever they lie") {
  std::uint32_t over_counted = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    chain_maker chains(seed);
    residency_index index({.seed = seed});
    use_events(index, 1);
    const auto chain = chains.fresh_chain(1000);
    std::vector<record_id> ids(chain.size());
    index.pages_added(0, chain, 0, k_device, ids);
    const auto first = 50 + chains.below(400);
    index.pages_removed(0, std::span(ids).subspan(first, 500), k_device);
    over_counted += lookup(index, chain).pages > first;
  }
  CHECK(over_counted <= 8);  // a hole of half the chain escapes four seeded probes one time in sixteen
}

TEST_CASE("copies are counted per medium, and the last removal ends the holding") {
  chain_maker chains(2);
  residency_index index;
  use_events(index, 1);
  const auto chain = chains.fresh_chain(4);
  std::vector<record_id> ids(chain.size());
  index.pages_added(0, chain, 0, k_device, ids);
  index.pages_added(0, chain, 0, k_device, ids);
  index.pages_added(0, chain, 0, kv_medium::host, ids);
  index.pages_removed(0, ids, k_device);
  CHECK(lookup(index, chain).pages_medium == k_device);
  index.pages_removed(0, ids, k_device);
  CHECK(lookup(index, chain).pages == 4);
  CHECK(lookup(index, chain).pages_medium == kv_medium::host);
  index.pages_removed(0, ids, k_device);  // one too many changes nothing on the other medium
  CHECK(lookup(index, chain).pages == 4);
  index.pages_removed(0, ids, kv_medium::host);
  CHECK(lookup(index, chain).pages == 0);
}

TEST_CASE("clear and the evidence setting decide which records count") {
  chain_maker chains(3);
  residency_index index;
  use_events(index, 2);
  const auto chain = chains.fresh_chain(6);
  for (replica_id r = 0; r < 2; ++r) {
    index.pages_added(r, chain, 0, k_device, {});
    index.checkpoint_added(r, boundary_of(chain, 3), k_device);
  }
  CHECK(lookup(index, chain, 0).checkpoint == 4);
  const auto epoch = index.epoch(0);
  index.clear(0);
  CHECK(index.epoch(0) != epoch);
  CHECK(lookup(index, chain, 0).pages == 0);
  CHECK(lookup(index, chain, 1).pages == 6);

  index.set_evidence(1, evidence::events, evidence::implied);
  CHECK(lookup(index, chain, 1).checkpoint == 6);
  index.set_evidence(1, evidence::simulated, evidence::implied);
  CHECK(lookup(index, chain, 1).pages == 0);
}

TEST_CASE("a correction doubts deeper checkpoints of an event replica until they are stored again") {
  chain_maker chains(4);
  residency_index index;
  use_events(index, 1);
  const auto chain = chains.fresh_chain(10);
  index.pages_added(0, chain, 0, k_device, {});
  index.checkpoint_added(0, boundary_of(chain, 7), k_device);
  index.correct(0, chain, 3);
  CHECK(lookup(index, chain).checkpoint == 3);
  CHECK(lookup(index, chain).checkpoint_from == confidence::observed);
  index.checkpoint_added(0, boundary_of(chain, 7), k_device);
  CHECK(lookup(index, chain).checkpoint == 8);
  CHECK(lookup(index, chain).checkpoint_from == confidence::confirmed);
}

TEST_CASE("memory is bounded: forgotten keys are reclaimed, held ones stay, what has no room is refused") {
  chain_maker chains(5);
  residency_index index({.bytes_max = k_index_bytes_min});
  const auto bytes_max = k_index_bytes_min + (std::size_t{1} << 17);  // the shards themselves come on top
  replica_model model(index, 1, {.capacity_tokens = 64 * 20'000, .keeps = retention::prompt_end});
  std::vector<block_key> last;
  for (int round = 0; round < 2000; ++round) {
    last = chains.fresh_chain(250);
    model.dispatched(last);
  }
  CHECK(index.stats().bytes <= bytes_max);
  CHECK(index.stats().keys_reclaimed > 100'000);
  CHECK(index.stats().keys_refused == 0);
  CHECK(lookup(index, last, 1).checkpoint == 250);

  use_events(index, 1);
  for (int round = 0; round < 2000; ++round) {
    index.pages_added(0, chains.fresh_chain(250), 0, k_device, {});
  }
  CHECK(index.stats().bytes <= bytes_max);
  CHECK(index.stats().keys_refused > 0);
  CHECK(lookup(index, last, 1).checkpoint == 250);
}

TEST_CASE("an empty prompt and no replicas are fine") {
  residency_index index;
  CHECK(lookup(index, {}).pages == 0);
  chain_maker chains(6);
  const auto chain = chains.fresh_chain(3);
  index.pages_added(0, chain, 0, k_device, {});
  CHECK(index.find(chain, {}, {}).seen_units == 3);
}

}  // namespace
}  // namespace weir::prefix_index
