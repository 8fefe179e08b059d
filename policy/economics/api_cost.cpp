#include "policy/economics/api_cost.hpp"

namespace weir::policy::economics {

namespace {

constexpr double k_million = 1e6;  // price lists are per million tokens

const api_tier* tier_of(const api_inputs& api, double prompt_tokens) {
  const api_tier* found = nullptr;
  for (const auto& tier : api.tiers) {
    if (static_cast<double>(tier.prompt_tokens_min) <= prompt_tokens) found = &tier;
  }
  return found;
}

// Of a million prompt tokens that do not come from the cache.
std::optional<double> cold_price(const api_inputs& api, const api_tier& tier) {
  if (!tier.miss) return std::nullopt;
  if ((api.write_5m_share > 0 && !tier.write_5m) || (api.write_1h_share > 0 && !tier.write_1h)) {
    return std::nullopt;
  }
  return (1 - api.write_5m_share - api.write_1h_share) * *tier.miss +
         api.write_5m_share * tier.write_5m.value_or(0) + api.write_1h_share * tier.write_1h.value_or(0);
}

}  // namespace

std::optional<api_line> api_cost(const api_inputs& api, const traffic_inputs& traffic) {
  if (traffic.kinds.empty()) return std::nullopt;
  api_line out;
  const double charged = 1 - api.batch_share * api.batch_discount;
  for (const auto& kind : traffic.kinds) {
    if (!kind.prompt_tokens || !kind.output_tokens) return std::nullopt;
    const auto* tier = tier_of(api, *kind.prompt_tokens);
    if (tier == nullptr || !tier->cached || !tier->output) return std::nullopt;
    const auto cold = cold_price(api, *tier);
    if (!cold) return std::nullopt;
    const double prompt = kind.share * charged * *kind.prompt_tokens / k_million;
    out.input_cold += prompt * *cold;
    out.saved_by_hits += prompt * (*cold - *tier->cached);
    out.output += kind.share * charged * *kind.output_tokens * *tier->output / k_million;
  }
  return out;
}

}  // namespace weir::policy::economics
