// The load that a replica publishes, as the router wants it: out of Prometheus text with vLLM's or SGLang's
// names, or out of the JSON of SGLang's GET /v1/loads.
//
// Lenient, for the texts come from many versions: what cannot be read is passed over, and so is a number
// that no replica could mean. A replica of several data-parallel engines is the sum of them; one engine's
// series that differ in other labels (tensor ranks, priorities) tell of the same requests, and the largest
// counts. Linear in the text and bounded by the limits below. Values; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace weir::gateway::route {

inline constexpr std::size_t k_metrics_bytes_max = 4 << 20;
inline constexpr std::size_t k_metrics_lines_max = 200'000;        // the rest is not read
inline constexpr std::size_t k_metrics_line_bytes_max = 16 << 10;  // a longer line is passed over
inline constexpr std::size_t k_metrics_engines_max = 1024;         // of one replica; more are passed over
inline constexpr double k_reported_requests_max = 1e6;             // of one engine
inline constexpr double k_reported_tokens_max = 1e15;

// What a target's own metrics say; below 0: they do not.
struct load_report {
  double running = -1;  // requests
  double waiting = -1;
  double waiting_uncached_tokens = -1;
  double capacity_tokens = -1;  // of its prefix cache
  double context_usage = -1;    // share of its context that running requests take, [0, 1]
  double state_usage = -1;      // the same of its slots of recurrent state
  double queried_tokens = -1;   // counter: prompt tokens looked up in its cache

  friend bool operator==(const load_report&, const load_report&) = default;
};

// JSON where the text begins with a brace. Nothing where it is too large or says nothing of the load.
std::optional<load_report> read_load(std::string_view text);

}  // namespace weir::gateway::route
