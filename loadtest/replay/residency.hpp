// What the router knows of the replicas during a replay. The index kinds are the product's own index, fed as
// a gateway feeds it; `truth` looks at the replicas themselves, the bound for any knowledge.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "loadtest/replay/replicas.hpp"
#include "policy/types.hpp"

namespace weir::loadtest::replay {

enum class knowledge : std::uint8_t {
  simulated,  // from our own dispatches: the replica's LRU and retention, predicted
  events,     // from the replicas' events
  truth,
};

struct knowledge_options {
  knowledge source = knowledge::simulated;
  cache_options cache;           // what the replicas are configured with
  double capacity_believed = 1;  // factor on the capacity that the simulated index assumes
};

class residency {
 public:
  virtual ~residency() = default;
  // One view per replica of a prompt's blocks.
  virtual void find(std::span<const std::uint64_t> blocks, std::span<policy::prefix_view> out) = 0;
  // The prompt was sent to a replica, which then did `changes`.
  virtual void dispatched(std::size_t replica, std::span<const std::uint64_t> blocks,
                          std::span<const std::size_t> hints,
                          std::span<const truth::cache_change> changes) = 0;
};

std::unique_ptr<residency> make_residency(const knowledge_options& options,
                                          const std::vector<std::unique_ptr<replica_state>>& replicas);

}  // namespace weir::loadtest::replay
