// What the operator's machines hold, carry, lose and cost. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "policy/economics/inputs.hpp"

namespace weir::policy::economics {

// Whether the model fits into a replica, and how many sequences beside it.
struct memory_fit {
  bool fits = false;
  std::int64_t free_bytes_per_gpu = 0;      // for state and pages; below 0: so much is missing
  std::int64_t gpus_min = 0;                // of a replica that holds the weights; 0: no number does
  std::int64_t sequence_bytes_per_gpu = 0;  // of a sequence of no tokens
  std::int64_t token_bytes_per_gpu = 0;

  // Of this context, at once in one replica.
  std::int64_t sequences(double context_tokens) const noexcept;
};

// Nothing while an input is unknown.
std::optional<memory_fit> fit_memory(const memory_inputs&, const self_host_inputs&);

// Something that a replica has so many seconds of in an hour, and a request takes some.
struct resource {
  std::string_view name;  // "work", "memory"
  double fixed_s = 0;     // of a request
  double cold_s = 0;      // of a request whose prompt is all new, on top
  double available_s = 0;

  double taken_s(double hit_rate) const noexcept { return fixed_s + cold_s * (1 - hit_rate); }
};

// What bounds the load: seconds of work; slots for sequences, where the time between tokens and the memory
// are known. Nothing while a speed or a length is unknown.
std::optional<std::vector<resource>> resources(const inputs&, const std::optional<memory_fit>&);

struct binding {
  double replicas =
      0;  // that a mean request per hour takes, at the peak; infinite: no number of them will do
  std::string_view name;
};

// REQUIRES: `all` is not empty.
binding replicas_per_load(const std::vector<resource>& all, double peak_to_mean, double hit_rate) noexcept;

// Whole replicas for so many requests per hour, spares apart; at least 1; k_replicas_max + 1: too many.
std::int64_t replicas_for(double requests_per_hour, const binding&) noexcept;

struct failures {
  double losses_per_replica_month = 0;
  double down_share = 0;  // of the time, of one replica
};

std::optional<failures> expect_failures(const operations_inputs&, const self_host_inputs&);

// The least number of spares beside `serving` replicas with which more are down at once in at most
// 1 - availability of the time (binomial: losses are independent). Nothing: above `most`.
std::optional<std::int64_t> spares_for(std::int64_t serving, const failures&, double availability,
                                       std::int64_t most) noexcept;

struct cost_line {
  std::string_view name;
  double usd_per_replica_hour = 0;
  double usd_per_hour = 0;  // whatever the number of replicas
};

// Nothing while a price is unknown. `expected` adds the work of losses where an hour of it has a price.
std::optional<std::vector<cost_line>> machine_costs(const self_host_inputs&, const operations_inputs&,
                                                    const std::optional<failures>& expected);

}  // namespace weir::policy::economics
