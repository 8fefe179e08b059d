// The composition root of `weir serve` and `weir engine`: builds everything in order, runs until a signal,
// takes it down in reverse order. Main thread.
#pragma once

#include <filesystem>

namespace weir::gateway {

namespace config {
struct gateway_config;
}

// Returns the process's exit code (gateway/cli/commands.hpp). Prints faults to standard error and, once it
// listens, the addresses, the models and lines to try to standard output.
int serve_forever(const std::filesystem::path& config_file);

// The same of a valid configuration that no file holds: SIGHUP changes nothing.
int serve_forever(const config::gateway_config& config);

}  // namespace weir::gateway
