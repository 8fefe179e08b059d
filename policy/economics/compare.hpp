// The answer to "should we self-host?", in three terms that do not move together: cost, isolation,
// operational load. Only the first one is money; none is turned into another. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "policy/economics/amount.hpp"
#include "policy/economics/break_even.hpp"
#include "policy/economics/inputs.hpp"
#include "policy/economics/machines.hpp"

namespace weir::policy::economics {

// One side at the given load. Amounts per something are absent where there is none of it: no traffic, no
// output tokens, no accepted result.
struct side_cost {
  usd_nano per_hour = 0;
  usd_nano per_month = 0;
  std::optional<usd_nano> per_request;
  std::optional<usd_nano> per_accepted;
  std::optional<usd_nano> per_mtok_input;  // prompt tokens, cached or not; our own: its share of the work
  std::optional<usd_nano> per_mtok_output;
  std::optional<usd_nano> per_mtok;  // all tokens
};

struct fleet {
  std::int64_t replicas = 0;    // spares included
  std::int64_t needed = 0;      // for the peak, spares included; k_replicas_max + 1: too many
  bool stated = false;          // `replicas` is the input; else what is needed
  bool carries = false;         // the peak
  double utilisation_mean = 0;  // of what serves; above 1: it cannot
  double utilisation_peak = 0;
  std::string_view bound;        // by what, "work" or "memory"
  double requests_per_hour = 0;  // the mean load that it carries; infinite where requests take nothing
  side_cost cost;                // of `replicas`
  std::optional<side_cost> cost_needed;  // where the stated ones do not carry the peak
  std::vector<cost_line> lines;
};

struct break_evens {
  crossing fleet_load;  // of the stated, or needed, replicas
  crossing first_load;  // with as many as the load needs
  crossing lasting_load;
  crossing self_hit_rate;  // at the given load, with as many as it then needs
  crossing api_hit_rate;   // against the cost above
};

struct isolation {
  double share = 0;  // of requests that have no alternative to self-hosting
  double requests_per_hour = 0;
  std::optional<std::int64_t> replicas;  // that they need alone, spares included
  // Those replicas with the API for the rest, against own machines for all: for the same accepted results.
  // What may not leave makes these the choice, and not the API against machines.
  std::optional<usd_nano> mixed_per_month;
  std::optional<usd_nano> own_per_month;
};

struct context_fit {
  std::int64_t tokens = 0;
  std::int64_t per_replica = 0;  // sequences at once
  std::int64_t in_all = 0;       // of the replicas that serve
};

struct operational_load {
  std::optional<memory_fit> memory;
  std::vector<context_fit> contexts;
  std::optional<double> sequences_at_peak;  // at once, where the time between tokens is known
  std::optional<failures> failing;
  double losses_per_month = 0;                // replicas, of all
  std::optional<std::int64_t> spares_needed;  // nothing: unknown, or beyond any sense
  std::int64_t spares = 0;
  std::optional<double> on_call_hours_per_month;  // losses included
  bool on_call_is_priced = false;
};

enum class answer : std::uint8_t {
  api_inputs_missing,  // nobody knows yet, so nothing is bought
  api_no_traffic,
  api_does_not_fit,  // a replica cannot hold the model, or no number of replicas carries the load
  api_cheaper,       // for what may leave, where some may not
  self_host_cheaper,
  equal,              // to the nano-dollar
  neither,            // no side gives an accepted result
  nothing_may_leave,  // so there is no API to compare with
  nothing_serves,     // nothing may leave, and it does not fit here
};

struct outcome {
  answer what = answer::api_inputs_missing;
  std::vector<missing_input> missing;
  std::optional<side_cost> api;
  std::optional<fleet> own;
  std::optional<break_evens> even;
  std::optional<usd_nano> saved_per_month;  // by the cheaper side, for the same accepted results
  std::optional<isolation> isolated;
  operational_load operations;
  double tokens_per_request = 0;  // prompt and output; 0: unknown
};

// REQUIRES: values in the ranges that inputs.hpp states; shares of kinds sum to 1.
outcome compare(const inputs&);

// Cost of an accepted result by load, for a plot: `points` loads in equal ratios around those that matter.
struct curve_point {
  double requests_per_hour = 0;
  std::optional<double> own_usd;  // as many replicas as needed; nothing: too many
  double api_usd = 0;
  std::int64_t replicas = 0;
};
std::vector<curve_point> curve(const inputs&, std::size_t points);

}  // namespace weir::policy::economics
