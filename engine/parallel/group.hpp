// Coming together: this process's place among the ranks becomes a way to speak to the others. Blocks; any
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/parallel/communicator.hpp"
#include "engine/parallel/split.hpp"
#include "engine/result.hpp"

namespace weir::engine::parallel {

// `settings`: all that must be the same for every rank, in words. errc::bad_request where another rank's are
// others; null for a world of one.
result<std::unique_ptr<communicator>> join_group(const ranks_config& place, const std::string& settings);

// Called once by the join_group() that succeeds next: a process is one rank of one group. Main thread, before
// it.
void when_met(std::function<void()> call);

// Returns once all ranks are ready to run, however long one takes to load. errc::lost where one ended
// instead.
result<void> wait_for_all(communicator& ranks);

}  // namespace weir::engine::parallel
