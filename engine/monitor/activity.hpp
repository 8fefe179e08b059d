// What an engine did since it was opened, as far as it decides how fast it serves: steps by what they
// computed, operations, latencies as the engine sees them, and where the tokens of its experts went. Plain
// values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/monitor/histogram.hpp"
#include "kernels/timing.hpp"

namespace weir::engine::monitor {

// Bounds in seconds of the histograms. Latencies have those of vLLM, so that its dashboards fit.
inline constexpr std::array k_first_token_bounds{0.001, 0.005, 0.01, 0.02, 0.04, 0.06,  0.08, 0.1,
                                                 0.25,  0.5,   0.75, 1.0,  2.5,  5.0,   7.5,  10.0,
                                                 20.0,  40.0,  80.0, 160., 640., 2560.0};
inline constexpr std::array k_token_gap_bounds{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                               0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
inline constexpr std::array k_request_bounds{0.3,  0.5,   0.8,   1.0,   1.5,   2.0,    2.5,
                                             5.0,  10.0,  15.0,  20.0,  30.0,  40.0,   50.0,
                                             60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
inline constexpr std::array k_step_bounds{0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
                                          0.1,    0.2,    0.5,   1.0,   2.0,   5.0,  10.0};

// A sequence that computes one token in a step counts as decoding, one that computes more as a prompt.
enum class step_phase : std::uint8_t { prefill, decode, mixed };
inline constexpr std::size_t k_step_phases = 3;

struct phase_activity {
  histogram step_s{k_step_bounds};  // whole steps: planning, copies, computing, sampling
  std::uint64_t tokens = 0;         // computed
  kernels::op_times ops;
};

// A layer's routed experts.
struct expert_layer {
  std::int32_t layer = 0;             // as the checkpoint numbers them, from 0
  std::vector<std::uint64_t> tokens;  // by expert; a token counts at each expert that it was sent to
  std::uint64_t recent_tokens = 0;    // of the last ones, older ones fading
  double imbalance = 0;               // the busiest one's recent tokens over the mean; 0: none
  std::int32_t busiest = -1;          // that one
};

struct engine_activity {
  std::array<phase_activity, k_step_phases> phases;  // by step_phase
  histogram queue_s{k_request_bounds};               // from submit() until it first ran
  histogram first_token_s{k_first_token_bounds};     // from submit()
  histogram token_gap_s{k_token_gap_bounds};         // between tokens of a sequence
  histogram request_s{k_request_bounds};             // from submit() to a stop token or the length limit
  std::array<std::uint64_t, 4> ended{};              // by finish_reason
  std::vector<expert_layer> experts;                 // of layers that have some
};

}  // namespace weir::engine::monitor
