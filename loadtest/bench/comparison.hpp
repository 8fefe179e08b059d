// The same loads at several targets in interleaved rounds, and what each adds to the direct way.
#pragma once

#include <expected>
#include <functional>
#include <string>
#include <vector>

#include "loadtest/bench/load.hpp"

namespace weir::loadtest::bench {

struct comparison_options {
  std::vector<const scenario*> scenarios;
  std::vector<load_target> targets;        // the first is the direct way
  std::vector<load_target> paced_targets;  // the same, in front of a mock that paces its tokens; may be empty
  int rounds = 3;
  load_options load;
};

// The rounds of one target under one scenario, together.
struct measurement {
  const scenario* of = nullptr;
  std::string target;
  double requests_per_s = 0;  // the middle one of the rounds
  std::int64_t requests = 0;
  std::int64_t events = 0;
  std::int64_t failures = 0;
  std::string failure;
  histogram times;
  double cpu_s = 0;  // 0: not known
  std::int64_t rss_bytes = 0;

  double cpu_us_per_request() const { return requests > 0 ? cpu_s * 1e6 / static_cast<double>(requests) : 0; }
  double cpu_us_per_event() const { return events > 0 ? cpu_s * 1e6 / static_cast<double>(events) : 0; }
};

// Scenario by scenario, within it target by target. `progress` gets a line for each load.
std::vector<measurement> compare(const comparison_options& options,
                                 const std::function<void(const std::string&)>& progress);

// A measurement with failures shows them instead of numbers.
std::string comparison_table(const std::vector<measurement>& all);
std::string comparison_json(const std::vector<measurement>& all);

}  // namespace weir::loadtest::bench
