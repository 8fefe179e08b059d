// Inputs from traffic that a gateway has seen, in place of those of the file. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "gateway/ledger/traffic.hpp"
#include "policy/economics/inputs.hpp"

namespace weir::gateway::costs {

// A peak is known from this much on: a day has its busy hour.
inline constexpr std::int64_t k_peak_needs_s = 24 * 3600;

// What was taken, a sentence each, and what could not be and why. Hosted targets are the API's side, all
// others ours; what no target had room for counts to neither side. Nothing is taken where there was no
// request.
std::vector<std::string> take_from_traffic(const ledger::traffic_summary& seen,
                                           policy::economics::inputs& in);

}  // namespace weir::gateway::costs
