#include "policy/hints.hpp"

#include <algorithm>

namespace weir::policy {

checkpoint_hints hints_for(std::int64_t prompt_tokens, const prefix_view& prefix,
                           const hint_terms& terms) noexcept {
  checkpoint_hints out;
  const std::int64_t unit = std::max<std::int64_t>(1, terms.unit_tokens);
  // The last token always runs, so the deepest boundary that can ever be resumed is in front of it.
  const std::int64_t end = std::max<std::int64_t>(0, prompt_tokens - 1) / unit * unit;
  const std::int64_t junction = std::min(prefix.page_tokens, end) / unit * unit;
  if (junction > prefix.reusable_tokens && junction < end && junction >= terms.junction_tokens_min) {
    out.at[out.count++] = junction;
  }
  if (end > prefix.reusable_tokens && end >= terms.prompt_tokens_min) out.at[out.count++] = end;
  return out;
}

}  // namespace weir::policy
