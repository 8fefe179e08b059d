// When requests of an open-loop run start: fixed before the run from a seed, so that a slow server cannot
// slow the load down. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace weir::loadtest {

// Seconds from the start of the run, ascending: Poisson arrivals with the given mean rate. REQUIRES:
// rate_per_s > 0.
std::vector<double> poisson_arrivals_s(std::size_t count, double rate_per_s, std::uint64_t seed);

}  // namespace weir::loadtest
