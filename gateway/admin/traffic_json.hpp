// Traffic per target as the admin API writes it, and back again for the command line. Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "gateway/ledger/traffic.hpp"

namespace weir::gateway::admin {

std::string to_json(const ledger::traffic_summary& traffic);

// Nothing: it is not what to_json() writes, or a count is no whole number >= 0.
std::optional<ledger::traffic_summary> traffic_from_json(const std::string& text);

}  // namespace weir::gateway::admin
