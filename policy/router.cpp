#include "policy/router.hpp"

namespace weir::policy {

std::string_view to_text(verdict why) noexcept {
  switch (why) {
    case verdict::chosen:
      return "chosen";
    case verdict::eligible:
      return "eligible";
    case verdict::not_ready:
      return "not_ready";
    case verdict::at_capacity:
      return "at_capacity";
    case verdict::no_images:
      return "no_images";
    case verdict::no_structured_output:
      return "no_structured_output";
    case verdict::no_forced_tools:
      return "no_forced_tools";
    case verdict::context_too_small:
      return "context_too_small";
  }
  return "unknown";
}

verdict check_eligibility(const request_facts& facts, const target_view& target) noexcept {
  if (!target.ready) return verdict::not_ready;
  if (facts.needs_image && !target.takes_images) return verdict::no_images;
  if (facts.needs_structured_output && !target.structured_output) return verdict::no_structured_output;
  if (facts.needs_forced_tool && !target.forced_tools) return verdict::no_forced_tools;
  // Subtraction instead of a sum: both counts come from outside and must not overflow.
  if (target.context_tokens > 0 && (facts.output_tokens_min > target.context_tokens ||
                                    facts.prompt_tokens > target.context_tokens - facts.output_tokens_min)) {
    return verdict::context_too_small;
  }
  // Last: what a target can never do says more than that it is busy.
  if (target.full) return verdict::at_capacity;
  return verdict::eligible;
}

decision route(const request_facts& facts, std::span<const target_view> targets, std::uint64_t turn) {
  decision out;
  out.candidates.reserve(targets.size());
  std::uint64_t eligible_count = 0;
  for (const auto& target : targets) {
    const verdict why = check_eligibility(facts, target);
    eligible_count += why == verdict::eligible ? 1 : 0;
    out.candidates.push_back({target.name, why});
  }
  if (eligible_count == 0) return out;
  std::uint64_t skip = turn % eligible_count;
  for (std::size_t i = 0; i < out.candidates.size(); ++i) {
    if (out.candidates[i].why != verdict::eligible) continue;
    if (skip-- > 0) continue;
    out.candidates[i].why = verdict::chosen;
    out.picked = i;
    break;
  }
  return out;
}

}  // namespace weir::policy
