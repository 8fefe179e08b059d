// Drives requests at a server, closed loop (a fixed number at once) or open loop (a fixed schedule), and
// collects a report. Blocks its thread, on which everything runs.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "loadtest/report.hpp"

namespace weir::loadtest {

struct run_options {
  std::string url = "http://127.0.0.1:8080";
  std::string model = "weir-tiny";
  std::string api_key;
  std::vector<std::string> prompts{"What is the capital of Kenya?"};  // taken in turn
  std::int64_t requests = 100;
  std::int64_t concurrency = 8;  // closed loop: at once
  double rate_per_s = 0;         // above 0: open loop, Poisson arrivals
  std::int64_t max_tokens = 64;
  double temperature = 0;
  std::uint64_t seed = 1;
  std::int64_t timeout_ms = 600'000;
  double ramp_s = 0;            // closed loop: the first requests start evenly over this time
  bool check_sequence = false;  // the answers are a mock's numbered tokens, complete and in order
  bool progress = false;        // a line per second on standard error
};

struct run_outcome {
  report measured;
  double seconds = 0;
};

// The error is a sentence about the options.
std::expected<run_outcome, std::string> run(const run_options& options);

}  // namespace weir::loadtest
