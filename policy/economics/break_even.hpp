// Where self-hosting and the API cost the same per accepted result. Pure; any thread.
//
// Self-hosting with as many whole replicas as the load needs is a step function of the load: cheaper and
// cheaper along a step, dearer at the next one. So there are two loads: the first one at which it is no
// dearer, and the one from which it stays so. Both are solved, not searched for.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/economics/api_cost.hpp"
#include "policy/economics/machines.hpp"

namespace weir::policy::economics {

struct crossing {
  enum class kind : std::uint8_t {
    at,      // at `value`
    always,  // wherever one looks
    never,   // nowhere within reach
  };
  kind what = kind::never;
  double value = 0;           // requests per hour, or a hit rate
  std::int64_t replicas = 0;  // of a load: the fleet there, spares included
};

// Both sides, as far as their costs depend on load and hit rates.
struct balance {
  double usd_per_replica_hour = 0;
  double usd_fixed_per_hour = 0;
  std::int64_t spares = 0;
  std::vector<resource> bounds;
  double peak_to_mean = 1;
  double self_hit_rate = 0;
  double self_accepted = 0;  // > 0
  api_line api;
  double api_hit_rate = 0;
  double api_accepted = 0;  // > 0
  double reuse_share = 1;   // no hit rate is above

  double fleet_usd_per_hour(std::int64_t replicas) const noexcept;
  double api_usd_per_accepted(double hit_rate) const noexcept;
  // What the results of one request to our own machines would cost at the API.
  double api_usd_per_request_here() const noexcept;
};

// The load at which a fleet of so many replicas, spares included, costs what the API does; `never` where it
// is full before.
crossing fleet_break_even(const balance&, std::int64_t replicas) noexcept;

// With as many replicas as needed: the first load at which self-hosting is no dearer...
crossing first_break_even(const balance&) noexcept;
// ...and the one from which it is no dearer at any load.
crossing lasting_break_even(const balance&) noexcept;

// The least hit rate of our own at which the replicas that this load then needs are no dearer than the API.
crossing self_hit_break_even(const balance&, double requests_per_hour) noexcept;

// The API's hit rate above which it is cheaper than `usd_per_accepted`, what an accepted result costs here.
// `always`: it is cheaper at any rate; `never`: at none.
crossing api_hit_break_even(const balance&, double usd_per_accepted) noexcept;

}  // namespace weir::policy::economics
