// Placing requests that wait together. A replica works prefills off one after another, so a request handed to
// it too early can neither be overtaken by a short one nor moved to a replica that falls idle. Requests
// therefore stay at the gateway while every replica they would choose has more than `hold_s` of prefill work
// or all that could serve them run as many as they take, and are placed in one order over the whole pool:
//   a higher priority class first, where a class that got nothing for class_ageing_s counts as one more;
//   in a class tenants that got less than others first (fair_share.hpp), in steps of lead_step_s of work;
//   among equals least uncached work first, minus `ageing` * the work that fits into the time waited, so that
//   none starves; requests longer than `long_tokens` first of all, since short ones can avoid the replica
//   that they take.
// Each request chooses by the score, counting the work of those placed before it in the same pass; a request
// whose choice is still busy keeps its virtual place there and waits.
//
// The owner calls place_next() when a request arrives, a prefill ends or a target changes, dispatches what it
// returns, updates the views and calls again until there is nothing to place. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "policy/router.hpp"
#include "policy/types.hpp"

namespace weir::policy {

// Work is summed and subtracted in floating point: less than this above the bound is not above it.
inline constexpr double k_busy_slack_tokens = 1;

struct placement_terms {
  double hold_s = 0.25;         // prefill work that a target may hold ahead of a new request
  double hold_max_s = 30;       // waited longer: dispatched to its choice however busy
  double ageing = 1;            // share of the time waited that counts against the work
  double long_tokens = 61'440;  // uncached
  double class_ageing_s = 10;   // waiting that counts as one class
  double lead_step_s = 1;       // of work: tenants that differ by less count as equal
};

struct waiting_request {
  request_facts facts;
  scoring how;
  overflow_terms overflow;
  std::span<const prefix_view> prefixes;  // one per target, or empty
  std::span<const bool> excluded;         // one per target, or empty: by a rule for this request
  std::span<const aside> set_aside;       // the same: for this request, besides what holds for all
  double waited_s = 0;
  std::uint64_t seed = 0;
  int priority = 0;           // class; higher first
  double class_waited_s = 0;  // since its class got something
  double lead_tokens = 0;     // of its tenant over the least served one
};

struct placed {
  std::size_t request = 0;  // index into those waiting
  decision made;            // picked is k_none: no target serves it
};

// Whether requests of this kind may wait at all; the others are dispatched as they come.
bool may_wait(policy_kind kind) noexcept;

// Prefill of all replicas that are up together, as far as it is known.
double expected_prefill_rate(std::span<const target_view> targets) noexcept;

// The next request to dispatch, or nothing while all wait for a target to get free.
std::optional<placed> place_next(std::span<const target_view> targets,
                                 std::span<const waiting_request> waiting, const placement_terms& terms);

}  // namespace weir::policy
