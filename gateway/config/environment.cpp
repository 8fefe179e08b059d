#include "gateway/config/environment.hpp"

#include <cstdlib>

namespace weir::gateway::config {

std::optional<std::string> environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace weir::gateway::config
