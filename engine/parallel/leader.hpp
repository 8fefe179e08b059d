// Rank 0's runner: what it is asked to do all ranks do, each its part.
//
// A step goes out as one message, with the copies that were asked for since the last one, and is then
// computed like any other rank's. Where a rank is lost, or its own part fails, it throws rank_lost, from then
// on always. One thread, the worker's.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/parallel/communicator.hpp"
#include "engine/runner/model_runner.hpp"

namespace weir::engine::parallel {

// `own` computes rank 0's part over `ranks`. The others are told to stop when the runner goes.
std::unique_ptr<runner::model_runner> make_leader(std::unique_ptr<communicator> ranks,
                                                  std::unique_ptr<runner::model_runner> own,
                                                  std::int32_t page_tokens);

}  // namespace weir::engine::parallel
