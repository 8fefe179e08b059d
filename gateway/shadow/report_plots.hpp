// Plots as inline SVG, for a page without scripts. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weir::gateway::shadow {

// One side's values, in any order.
struct plot_series {
  std::string_view name;  // escaped by the plot
  std::vector<double> values;
};

// Share of values up to each one, over a logarithmic axis. Values below 0.1 count as 0.1. Empty where neither
// has a value.
std::string cumulative_plot(std::string_view title, std::string_view unit, plot_series a, plot_series b);

// A bar for each: its value and the interval around it, from 0 on.
struct plot_bar {
  std::string_view name;
  double value = 0;
  double low = 0, high = 0;  // equal to the value: none is drawn
  std::string label;
  bool is_shadow = false;  // its colour
};
std::string bar_plot(std::string_view title, const std::vector<plot_bar>& bars);

}  // namespace weir::gateway::shadow
