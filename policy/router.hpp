// Which target serves a request: filter by what the request needs, estimate each that could serve, take the
// least score. Pure: the same arguments give the same decision, so a decision can be replayed and explained
// offline. Any thread.
#pragma once

#include <cstdint>
#include <span>

#include "policy/score.hpp"
#include "policy/types.hpp"

namespace weir::policy {

// A client's session stays where it was while that costs at most this share more: too little for a prediction
// to tell, enough for what no index sees.
inline constexpr double k_session_margin = 0.02;

// When targets other than replicas take part.
struct overflow_terms {
  bool engine = true;            // the embedded engine may answer for this model
  bool hosted = true;            // a hosted target may
  bool hosted_by_score = false;  // a hosted target competes with replicas instead of only relieving them
  double probability_min = 0.5;  // replicas below this chance of the contract count as unable to keep it
};

// Why a target cannot serve, or verdict::eligible. `prefix`: what of the prompt takes no new pages there.
verdict check_eligibility(const request_facts& facts, const target_view& target,
                          const prefix_view& prefix = {}) noexcept;

// What the request would take of a target's accounts.
account_need need_of(const request_facts& facts, const prefix_view& prefix) noexcept;

// Of those that hold until another request ends there.
bool is_full(verdict why) noexcept;

// Whether requests may go there at all, first or by overflow.
bool may_serve(const target_view& target, const overflow_terms& overflow) noexcept;

// One decision. `prefixes` is empty or as long as `targets`; `seed` breaks ties, and counts the decisions of
// a model for round robin. `ahead_tokens`, empty or as long as `targets`, is work that would run before this
// request and is not in the targets' load. With none eligible, picked is k_none and the candidates say why.
decision route(const request_facts& facts, std::span<const target_view> targets,
               std::span<const prefix_view> prefixes, const scoring& how, const overflow_terms& overflow,
               std::uint64_t seed, std::span<const double> ahead_tokens = {});

}  // namespace weir::policy
