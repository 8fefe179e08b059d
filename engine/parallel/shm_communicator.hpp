// Ranks of one machine over shared memory.
//
// Everything goes in rounds: each rank writes at most a chunk into its own buffer, says so, and reads the
// others' once all have said so. Two buffers a rank are enough: who writes round n has seen all post n - 1,
// which they do only after they have read n - 2. A wait looks for a moment, then sleeps on the awaited rank's
// counter and wakes now and then to see who still lives.
#pragma once

#include <memory>

#include "engine/parallel/communicator.hpp"
#include "engine/parallel/shm_region.hpp"

namespace weir::engine::parallel {

// Returns once all ranks have come. errc::bad_request: ranks that do not belong together; errc::io: the
// system, or a rank that did not come. REQUIRES: 0 <= rank < size <= k_ranks_max.
result<std::unique_ptr<communicator>> join_by_shared_memory(const shm_options& options);

}  // namespace weir::engine::parallel
