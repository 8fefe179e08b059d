// Replays a trace over real sockets through a running gateway whose targets are mocks: requests are sent when
// the trace says, `speed` times as fast, and what comes back is counted. Reuse is what the replicas report,
// prediction and decisions what the gateway's own metrics say. Times are given as the trace's: wall time x
// speed, from when a request should have been sent. Blocks its thread, on which everything runs.
#pragma once

#include <cstddef>
#include <expected>
#include <functional>
#include <span>
#include <string>

#include "loadtest/endpoint.hpp"
#include "loadtest/replay/replay.hpp"
#include "loadtest/replay/synthetic_prompt.hpp"

namespace weir::loadtest::replay {

struct live_options {
  http_address gateway;
  http_address admin;
  std::string model;
  std::string api_key;   // empty: none is sent
  double speed = 10;     // trace seconds in a second
  std::size_t replicas;  // behind the model
  prompt_form form = prompt_form::text;
  std::function<void(std::size_t done)> progress;  // may be empty
};

struct live_result {
  // load_spread_60s stays 0; prediction_error_mean is weighted by prompt tokens: sums are what metrics keep.
  replay_result figures;
  double late_p99_s = 0;  // trace seconds by which requests were sent too late, part of their TTFT
};

// The first request that fails ends it: times without it would not compare. The error is a sentence.
// REQUIRES: trace is not empty, no one else uses the gateway.
std::expected<live_result, std::string> run_live(std::span<const trace_request> trace,
                                                 const live_options& options);

}  // namespace weir::loadtest::replay
