// The composition root of `weir serve`: builds everything in order, runs until a signal, takes it down in
// reverse order. Main thread.
#pragma once

#include <filesystem>

namespace weir::gateway {

// Returns the process's exit code (gateway/cli/commands.hpp). Prints faults to standard error and, once it
// listens, the addresses, the models and lines to try to standard output.
int serve_forever(const std::filesystem::path& config_file);

}  // namespace weir::gateway
