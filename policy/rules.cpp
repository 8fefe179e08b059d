#include "policy/rules.hpp"

#include <algorithm>

namespace weir::policy {

namespace {

bool holds(const std::vector<std::string>& list, std::string_view name) noexcept {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool names(const std::vector<std::string>& list, std::string_view name) noexcept {
  return list.empty() || holds(list, name);
}

bool agrees(const std::optional<bool>& wanted, bool is) noexcept {
  return !wanted || *wanted == is;
}

}  // namespace

bool matches(const rule_match& when, const rule_subject& subject) noexcept {
  return names(when.models, subject.model) && names(when.tenants, subject.tenant) &&
         names(when.keys, subject.key) && subject.prompt_tokens >= when.prompt_tokens_min &&
         (when.prompt_tokens_max == 0 || subject.prompt_tokens <= when.prompt_tokens_max) &&
         agrees(when.tools, subject.has_tools) && agrees(when.images, subject.has_images) &&
         agrees(when.local_only, subject.local_only);
}

std::string_view apply_rules(std::span<const rule> rules, const rule_subject& subject,
                             std::span<const std::string_view> names, std::span<bool> excluded,
                             scoring& how) {
  std::string_view excluding;
  for (const auto& r : rules) {
    if (!matches(r.when, subject)) continue;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const bool out = (!r.allow.empty() && !holds(r.allow, names[i])) || holds(r.forbid, names[i]);
      if (!out || excluded[i]) continue;
      excluded[i] = true;
      excluding = r.name;
    }
    if (r.ttft_s > 0) how.contract.ttft_s = r.ttft_s;
    if (r.itl_s > 0) how.contract.itl_s = r.itl_s;
    if (r.cost_max_usd > 0) how.cost_max_usd = r.cost_max_usd;
  }
  return excluding;
}

}  // namespace weir::policy
