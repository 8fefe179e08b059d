// The process's environment variables: what launchers say, and nothing that a configuration file could. Main
// thread, before there are others.
#pragma once

#include <optional>
#include <string>

namespace weir::gateway::config {

// Nothing where it is not set.
std::optional<std::string> environment_variable(const char* name);

}  // namespace weir::gateway::config
