// Replays a trace in virtual time: the very policy objects that a gateway runs place the requests, replicas
// work prefills off one after another at a fixed rate and hold what their retention says. TTFT is waiting at
// the gateway, waiting at the replica and prefill. One thread; the same options give the same result.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "loadtest/replay/residency.hpp"
#include "loadtest/replay/trace.hpp"
#include "policy/hints.hpp"
#include "policy/placement.hpp"

namespace weir::loadtest::replay {

enum class reuse_estimate : std::uint8_t {
  checkpoint,  // up to the deepest checkpoint
  pages,       // up to the last page, as routers do that know no checkpoints
  none,
};

// Whether a prompt is as long as the trace says, or its blocks, all of which may be reused.
enum class lengths : std::uint8_t { tokens, blocks };

struct replay_options {
  std::size_t replicas = 8;
  double blocks_per_s = 14;  // prefill rate of a replica
  std::uint64_t seed = 1;
  lengths count = lengths::tokens;
  reuse_estimate estimate = reuse_estimate::checkpoint;
  policy::scoring how;
  double work_price = 0.1;  // of a second of a replica's work, in seconds of a waiting user
  policy::placement_terms placement;
  policy::hint_terms hints;
  knowledge_options knows;
  bool sends_hints = false;
  std::function<void(std::size_t done)> progress;  // may be empty
};

struct replay_result {
  double hit_rate = 0;  // reused tokens of all prompt tokens
  double predicted_hit_rate = 0;
  double prediction_error_mean = 0;  // |predicted - reused| / prompt tokens, mean over requests
  double ttft_mean_s = 0;
  double ttft_p50_s = 0;
  double ttft_p90_s = 0;
  double ttft_p99_s = 0;
  double load_spread = 0;      // most loaded replica's requests over the mean
  double load_spread_60s = 0;  // the largest in any 60 s with more than 100 requests
  double decision_us_p99 = 0;  // wall time of looking up and placing one request
  std::vector<float> ttft_s;   // sorted
};

// Sorts ttft_s, which must not be empty, and fills in the figures that it gives.
void summarize_ttft(replay_result& result);

replay_result run_replay(std::span<const trace_request> trace, const replay_options& options);

}  // namespace weir::loadtest::replay
