// The two cost curves on logarithmic axes, for characters and for SVG. Pure; any thread.
#pragma once

#include <optional>
#include <vector>

#include "policy/economics/compare.hpp"

namespace weir::gateway::costs {

struct range {
  double low = 0, high = 0;

  // 0 at `low`, 1 at `high`, by ratio.
  double share_of(double value) const noexcept;
};

struct curves {
  std::vector<policy::economics::curve_point> points;
  range load, usd;
};

// Nothing where there is nothing to draw: an input is unknown, or a side costs nothing.
std::optional<curves> make_curves(const policy::economics::inputs&, std::size_t points);

}  // namespace weir::gateway::costs
