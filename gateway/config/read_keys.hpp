// Reads who may call and what they may use. One parse, one thread.
#pragma once

#include "gateway/config/reader.hpp"

namespace weir::gateway::config {

void read_auth(map_reader& in, auth_config& out);
void read_redis(map_reader& in, redis_config& out);

}  // namespace weir::gateway::config
