// What a request would cost on a target and how likely it meets its latency contract.
//
//   wait = pending prefill tokens / prefill rate          work = uncached tokens / prefill rate
//   TTFT = wait + work + base + transfer                  ITL  = base + per sequence * running
//   score = (price + value_of_time * TTFT - credit) / (P * quality * success)
//
// `transfer`: where a checkpoint is resumed that has to come over a link (accounts.hpp).
//
// A self-hosted target's price is its cost per second times the work; a hosted one's its price list. P is the
// chance that TTFT and ITL stay within the contract, from a log-normal with the target's learnt spread, times
// how often such predictions came true of late; `success` the share of results that came whole
// (outcomes.hpp). `credit` values pages without a checkpoint: sending a second sighting of a prefix there
// turns them into one (kimi-models: second-hit promotion). With equal costs of a second of waiting and of
// working, the score is the linear cost of Dynamo's router with weight 0.5 on pending work, the flat optimum
// of its trace studies. Pure; any thread.
#pragma once

#include <cstdint>

#include "policy/types.hpp"

namespace weir::policy {

inline constexpr double k_probability_min = 0.01;
// Where no rate is known yet, one of a mid-size model on one accelerator: only ratios between targets matter.
inline constexpr double k_prefill_tokens_per_s_default = 8000;

enum class policy_kind : std::uint8_t {
  balanced,       // the score above; waiting requests are placed together (placement.hpp)
  latency,        // least predicted TTFT
  cost,           // uncached tokens + pending_weight * pending tokens
  least_pending,  // least pending work
  prefix_greedy,  // most reusable tokens
  round_robin,
  random,
};

// The latency a result must keep to be worth its price; 0 = no bound.
struct latency_contract {
  double ttft_s = 0;
  double itl_s = 0;

  // Whether a result with these kept to it; below 0: not measured, which breaks nothing.
  constexpr bool is_met(double first_token_s, double per_token_s) const noexcept {
    return (ttft_s <= 0 || first_token_s <= ttft_s) && (itl_s <= 0 || per_token_s <= itl_s);
  }
};

struct scoring {
  policy_kind kind = policy_kind::balanced;
  double value_of_time_usd_per_s = 0.01;  // what a second of a waiting user is worth
  double credit_share = 0.15;             // of the work that a checkpoint at the page frontier would save
  double pending_weight = 0.5;            // policy_kind::cost alone
  latency_contract contract;
  double cost_max_usd = 0;  // of a request; 0 = no ceiling
};

// Work and waiting time of a request on a target, in tokens of prefill.
double uncached_tokens(const request_facts& facts, const prefix_view& prefix) noexcept;
double prefill_rate(const speed_view& speed) noexcept;  // > 0

// Fills everything but the verdict of a candidate. `ahead_tokens` is prefill work that is not yet in the
// target's own load but would run before this request.
candidate estimate(const request_facts& facts, const target_view& target, const prefix_view& prefix,
                   const scoring& how, double ahead_tokens = 0) noexcept;

}  // namespace weir::policy
