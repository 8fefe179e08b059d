// The parts of the configuration that decide where requests go. Used by parse() alone.
#pragma once

#include "gateway/config/reader.hpp"

namespace weir::gateway::config {

void read_routing(map_reader& in, routing_config& out);
void read_rule(map_reader& in, policy::rule& out);
void read_cache(map_reader& in, cache_config& out);

// Speed, price and load of a target, which stand beside its kind.
void read_terms(map_reader& in, terms_config& out);

// What a model adds to its targets.
void read_failover(map_reader& in, failover_config& out);
void read_overload(map_reader& in, overload_config& out);
void read_model_terms(map_reader& in, model_config& out);

}  // namespace weir::gateway::config
