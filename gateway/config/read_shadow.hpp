// Reads `shadow`, and checks it against all else.
#pragma once

#include "gateway/config/reader.hpp"

namespace weir::gateway::config {

void read_shadow(map_reader& in, shadow_config& out);

// What is wrong between `shadow` and targets, models and keys.
std::vector<fault> check_shadow(const gateway_config& config, const std::string& file);

}  // namespace weir::gateway::config
