// Any other rank than 0: does what rank 0's messages say until one says stop. Blocks; one thread.
#pragma once

#include "engine/parallel/communicator.hpp"
#include "engine/parallel/step_message.hpp"
#include "engine/result.hpp"
#include "engine/runner/model_runner.hpp"

namespace weir::engine::parallel {

// errc::lost where a rank is gone, or this one could not go on: then all others lose it.
result<void> follow(communicator& ranks, runner::model_runner& own, const step_limits& limits);

}  // namespace weir::engine::parallel
