#include "policy/score.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weir::policy {

namespace {

double normal_cdf(double x) noexcept {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

double chance_within(double bound, double predicted, double spread) noexcept {
  if (bound <= 0) return 1;
  if (predicted <= 0) return 1;
  return normal_cdf(std::log(bound / predicted) / std::max(spread, 1e-3));
}

double price_of(const request_facts& facts, const target_view& target, double uncached, double cached,
                double itl_s) noexcept {
  const auto output = static_cast<double>(facts.output_tokens_expected);
  if (target.kind == target_kind::hosted) {
    return uncached * target.price.fresh_usd_per_token + cached * target.price.cached_usd_per_token +
           output * target.price.output_usd_per_token;
  }
  // A decode step serves all running sequences: each pays its share of the replica's second.
  const double share = 1.0 / static_cast<double>(std::max(1, target.load.running + 1));
  return target.price.usd_per_s * (uncached / prefill_rate(target.speed) + output * itl_s * share);
}

const outcome_view& outcome_of(const request_facts& facts, const target_view& target) noexcept {
  return target.outcomes[static_cast<std::size_t>(class_of(facts.prompt_tokens))];
}

double score_of(const candidate& c, const request_facts& facts, const target_view& target, const scoring& how,
                double pending) noexcept {
  const double uncached = uncached_tokens(facts, c.prefix);
  switch (how.kind) {
    case policy_kind::latency:
      return c.ttft_s;
    case policy_kind::cost:
      return uncached + how.pending_weight * pending;
    case policy_kind::least_pending:
      return pending;
    case policy_kind::prefix_greedy:
      return -static_cast<double>(c.prefix.reusable_tokens);
    case policy_kind::round_robin:
    case policy_kind::random:
      return 0;
    case policy_kind::balanced:
      break;
  }
  const double second = how.value_of_time_usd_per_s + target.price.usd_per_s;
  const auto unused = static_cast<double>(c.prefix.page_tokens - c.prefix.reusable_tokens);
  const double credit = target.kind == target_kind::hosted
                            ? 0
                            : how.credit_share * unused / prefill_rate(target.speed) * second;
  const double expected = c.cost_usd + how.value_of_time_usd_per_s * c.ttft_s - credit;
  const double success = outcome_of(facts, target).success;
  return expected / (c.contract_probability * std::max(target.quality * success, 1e-3));
}

}  // namespace

double uncached_tokens(const request_facts& facts, const prefix_view& prefix) noexcept {
  return static_cast<double>(std::max<std::int64_t>(0, facts.prompt_tokens - prefix.reusable_tokens));
}

double prefill_rate(const speed_view& speed) noexcept {
  return speed.prefill_tokens_per_s > 0 ? speed.prefill_tokens_per_s : k_prefill_tokens_per_s_default;
}

candidate estimate(const request_facts& facts, const target_view& target, const prefix_view& prefix,
                   const scoring& how, double ahead_tokens) noexcept {
  candidate c{.name = target.name, .prefix = prefix};
  const double pending = std::max(0.0, target.load.pending_prefill_tokens) + ahead_tokens;
  const double uncached = uncached_tokens(facts, prefix);
  c.ttft_s =
      (pending + uncached) / prefill_rate(target.speed) + target.speed.ttft_base_s + target.load.overdue_s;
  if (prefix.reusable_tokens > 0) c.ttft_s += transfer_s(target.accounts);
  c.itl_s = target.speed.itl_base_s + target.speed.itl_per_sequence_s * (target.load.running + 1);
  const double within = chance_within(how.contract.ttft_s, c.ttft_s, target.speed.spread) *
                        chance_within(how.contract.itl_s, c.itl_s, target.speed.spread);
  const double calibrated = std::min(1.0, within * outcome_of(facts, target).calibration);
  c.contract_probability = std::max(calibrated, k_probability_min);
  c.cost_usd = price_of(facts, target, uncached, static_cast<double>(prefix.reusable_tokens), c.itl_s);
  c.score = score_of(c, facts, target, how, pending);
  return c;
}

}  // namespace weir::policy
