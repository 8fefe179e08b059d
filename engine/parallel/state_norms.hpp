// Norms of states of which each rank has some heads. One thread, the runner's.
#pragma once

#include <vector>

#include "engine/parallel/communicator.hpp"

namespace weir::engine::parallel {

// Those over all ranks, from each one's own.
std::vector<double> joint_norms(communicator& ranks, std::vector<double> own);

}  // namespace weir::engine::parallel
