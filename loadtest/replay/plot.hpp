// One SVG of a comparison: for each run the share of requests whose first token came within a time.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace weir::loadtest::replay {

struct plotted_run {
  std::string name;
  std::vector<float> ttft_s;  // sorted
};

// A self-contained document; time is logarithmic.
std::string ttft_plot(std::span<const plotted_run> runs, const std::string& title);

}  // namespace weir::loadtest::replay
