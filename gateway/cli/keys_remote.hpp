// The subcommands of `weir keys` that talk to a running weir.
#pragma once

#include "gateway/cli/commands.hpp"

namespace weir::gateway::cli {

void add_remote_keys(CLI::App& keys, command& chosen);

}  // namespace weir::gateway::cli
