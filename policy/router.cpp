#include "policy/router.hpp"

#include <algorithm>
#include <cmath>

#include "policy/mix.hpp"

namespace weir::policy {

namespace {

bool serves_first(const target_view& target, const overflow_terms& overflow) noexcept {
  return target.kind == target_kind::replica ||
         (target.kind == target_kind::hosted && overflow.hosted_by_score);
}

// The least score among candidates for which `takes` holds; ties by the seed.
template <class Takes>
std::size_t pick_least(const decision& d, std::uint64_t seed, Takes takes) {
  std::size_t best = decision::k_none;
  std::uint64_t best_tie = 0;
  for (std::size_t i = 0; i < d.candidates.size(); ++i) {
    if (d.candidates[i].why != verdict::eligible || !takes(i)) continue;
    const std::uint64_t tie = mix(seed ^ mix(i));
    const bool less = best == decision::k_none || d.candidates[i].score < d.candidates[best].score ||
                      (d.candidates[i].score == d.candidates[best].score && tie < best_tie);
    if (!less) continue;
    best = i;
    best_tie = tie;
  }
  return best;
}

// The session's target instead of `best`, where it costs about the same.
template <class Takes>
std::size_t keep_session(const decision& d, std::size_t best, std::size_t session, Takes takes) {
  if (best == decision::k_none || session >= d.candidates.size()) return best;
  const auto& kept = d.candidates[session];
  if (kept.why != verdict::eligible || !takes(session)) return best;
  const double least = d.candidates[best].score;
  return kept.score <= least + k_session_margin * std::abs(least) ? session : best;
}

template <class Takes>
std::size_t pick_in_turn(const decision& d, std::uint64_t turn, Takes takes) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < d.candidates.size(); ++i) {
    count += d.candidates[i].why == verdict::eligible && takes(i) ? 1 : 0;
  }
  if (count == 0) return decision::k_none;
  std::uint64_t skip = turn % count;
  for (std::size_t i = 0; i < d.candidates.size(); ++i) {
    if (d.candidates[i].why != verdict::eligible || !takes(i)) continue;
    if (skip-- == 0) return i;
  }
  return decision::k_none;
}

}  // namespace

account_need need_of(const request_facts& facts, const prefix_view& prefix) noexcept {
  const auto sequences = std::max<std::int64_t>(facts.sequences, 1);
  const auto fresh = std::max<std::int64_t>(0, facts.prompt_tokens - prefix.reusable_tokens);
  constexpr std::int64_t k_most = std::int64_t{1} << 40;
  const auto output = std::clamp<std::int64_t>(facts.output_tokens_expected, 0, k_most / sequences);
  return {.sequences = sequences, .context_tokens = std::min(fresh, k_most) + sequences * output};
}

bool is_full(verdict why) noexcept {
  return why == verdict::at_capacity || why == verdict::no_state_slot || why == verdict::no_context_pages ||
         why == verdict::kept_for_replication;
}

verdict check_eligibility(const request_facts& facts, const target_view& target,
                          const prefix_view& prefix) noexcept {
  if (target.excluded) return verdict::rule;
  if (facts.local_only && target.kind == target_kind::hosted) return verdict::residency;
  if (!target.ready) return verdict::not_ready;
  if ((target.endpoints & set_of(facts.asks)) == 0) return verdict::no_endpoint;
  if (facts.needs_image && !target.takes_images) return verdict::no_images;
  if (facts.needs_structured_output && !target.structured_output) return verdict::no_structured_output;
  if (facts.needs_forced_tool && !target.forced_tools) return verdict::no_forced_tools;
  // Subtraction instead of a sum: both counts come from outside and must not overflow.
  const std::int64_t prompt = facts.prompt_is_estimate ? 0 : facts.prompt_tokens;
  if (target.context_tokens > 0 && (facts.output_tokens_min > target.context_tokens ||
                                    prompt > target.context_tokens - facts.output_tokens_min)) {
    return verdict::context_too_small;
  }
  if (target.accounts.context_tokens > 0 && prompt > target.accounts.context_tokens) {
    return verdict::context_too_small;
  }
  // Last: what a target can never do says more than that it is busy or fails.
  if (target.set_aside == aside::failing) return verdict::failing;
  if (target.set_aside == aside::warming) return verdict::warming;
  if (target.full) return verdict::at_capacity;
  auto wants = need_of(facts, prefix);
  // More answers at once than there are slots run one after another there.
  const auto slots = target.accounts.slots - target.accounts.slots_reserved;
  if (slots > 0) wants.sequences = std::min(wants.sequences, slots);
  switch (check_accounts(target.accounts, wants)) {
    case shortage::none:
      return verdict::eligible;
    case shortage::state_slots:
      return verdict::no_state_slot;
    case shortage::context_pages:
      return verdict::no_context_pages;
    case shortage::reserved_slots:
    case shortage::reserved_pages:
      return verdict::kept_for_replication;
  }
  return verdict::eligible;
}

bool may_serve(const target_view& target, const overflow_terms& overflow) noexcept {
  return serves_first(target, overflow) || (overflow.engine && target.kind == target_kind::engine) ||
         (overflow.hosted && target.kind == target_kind::hosted);
}

decision route(const request_facts& facts, std::span<const target_view> targets,
               std::span<const prefix_view> prefixes, const scoring& how, const overflow_terms& overflow,
               std::uint64_t seed, std::span<const double> ahead_tokens) {
  decision out;
  out.candidates.reserve(targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const prefix_view prefix = prefixes.empty() ? prefix_view{} : prefixes[i];
    auto c = estimate(facts, targets[i], prefix, how, ahead_tokens.empty() ? 0 : ahead_tokens[i]);
    c.why = check_eligibility(facts, targets[i], prefix);
    if (c.why == verdict::eligible && how.cost_max_usd > 0 && c.cost_usd > how.cost_max_usd) {
      c.why = verdict::too_expensive;
    }
    out.candidates.push_back(c);
  }

  const auto first = [&](std::size_t i) { return serves_first(targets[i], overflow); };
  const auto keeps = [&](std::size_t i) {
    return first(i) && out.candidates[i].contract_probability >= overflow.probability_min;
  };
  const auto engine = [&](std::size_t i) {
    return overflow.engine && targets[i].kind == target_kind::engine;
  };
  const auto hosted = [&](std::size_t i) {
    return overflow.hosted && targets[i].kind == target_kind::hosted;
  };
  const auto pick = [&](auto takes) {
    if (how.kind == policy_kind::round_robin) return pick_in_turn(out, seed, takes);
    const std::size_t best = pick_least(out, seed, takes);
    return how.kind == policy_kind::random ? best : keep_session(out, best, facts.session_target, takes);
  };
  out.picked = pick(keeps);
  if (out.picked == decision::k_none) out.picked = pick(engine);
  if (out.picked == decision::k_none) out.picked = pick(hosted);
  // No one keeps the contract: late is better than never.
  if (out.picked == decision::k_none) out.picked = pick(first);

  if (out.picked != decision::k_none) out.candidates[out.picked].why = verdict::chosen;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (out.candidates[i].why == verdict::eligible && !first(i))
      out.candidates[i].why = verdict::overflow_only;
  }
  return out;
}

}  // namespace weir::policy
