// Traces out of a seed, of kinds that a fleet sees mixed: shared roots (system prompts of several tenants
// with short questions behind), deep forks (long documents asked about from several depths), agents
// (histories that grow turn by turn) and prompts that share nothing. The mixture, its sizes and its pace are
// drawn from the seed; the same seed gives the same trace on any machine.
#pragma once

#include <cstdint>
#include <vector>

#include "loadtest/replay/trace.hpp"

namespace weir::loadtest::replay {

struct workload_options {
  std::uint64_t seed = 1;
  double duration_s = 1800;
  double blocks_per_s = 14 * 8;  // what the fleet prefills
  double load_min = 0.7;         // prompt blocks that come, cached or not, as a share of that
  double load_max = 1.2;
};

std::vector<trace_request> make_workload(const workload_options& options);

}  // namespace weir::loadtest::replay
