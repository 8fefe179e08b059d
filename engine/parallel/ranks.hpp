// Which rank of how many this process is, as the usual launchers say it in the environment: torchrun (RANK,
// WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE), Open MPI (OMPI_COMM_WORLD_*), MPICH and Intel MPI (PMI_*), Slurm
// (SLURM_PROCID and the step's size, in a step that srun made). The first of these that is set counts.
// MASTER_PORT tells several worlds on one machine apart; with MASTER_ADDR it is where ranks of several
// machines meet. Pure; any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "engine/parallel/split.hpp"
#include "engine/result.hpp"

namespace weir::engine::parallel {

// Nothing where a variable is not set.
using environment = std::function<std::optional<std::string>(const char* name)>;

// A world of one where nothing is set; how to split is not theirs to say. errc::bad_request names the
// variables that are half set, out of range, contradict each other, or are missing for ranks on several
// machines.
result<ranks_config> find_world(const environment& variables);

}  // namespace weir::engine::parallel
