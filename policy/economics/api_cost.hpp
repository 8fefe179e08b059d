// What one request costs at the API, as a straight line over its cache's hit rate. Pure; any thread.
#pragma once

#include <optional>

#include "policy/economics/inputs.hpp"

namespace weir::policy::economics {

// USD per request, the mean over the kinds of traffic.
struct api_line {
  double input_cold = 0;     // its prompt, when nothing comes from the cache
  double saved_by_hits = 0;  // of that, when all of it does; below 0 where reading costs more than a miss
  double output = 0;

  double input(double hit_rate) const noexcept { return input_cold - saved_by_hits * hit_rate; }
  double total(double hit_rate) const noexcept { return input(hit_rate) + output; }
};

// Nothing while the prices or the lengths are not all known.
std::optional<api_line> api_cost(const api_inputs&, const traffic_inputs&);

}  // namespace weir::policy::economics
