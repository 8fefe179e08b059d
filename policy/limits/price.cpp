#include "policy/limits/price.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weir::policy::limits {

namespace {

constexpr double k_pico_per_usd_million = 1e6;
constexpr double k_usd_per_million_max = 1e6;
constexpr std::int64_t k_pico_per_nano = 1000;

const price_list& tier_for(std::int64_t prompt_tokens, std::span<const price_tier> tiers) noexcept {
  static constexpr price_list k_none;
  const price_list* found = &k_none;
  for (const auto& tier : tiers) {
    if (tier.prompt_tokens_min <= prompt_tokens) found = &tier.prices;
  }
  return *found;
}

class sum {
 public:
  void add(std::int64_t tokens, const std::optional<usd_pico>& own, const std::optional<usd_pico>& instead) {
    if (tokens <= 0) return;
    if (!own) unpriced_ = true;
    total_ += static_cast<int128>(tokens) * own.value_or(instead.value_or(0));
  }

  charge result() const noexcept {
    const int128 nano = (total_ + k_pico_per_nano - 1) / k_pico_per_nano;
    constexpr int128 most = std::numeric_limits<usd_nano>::max();
    return {static_cast<usd_nano>(std::min(nano, most)), unpriced_};
  }

 private:
  int128 total_ = 0;
  bool unpriced_ = false;
};

std::int64_t bounded(std::int64_t value, bool& clamped) noexcept {
  clamped = clamped || value < 0 || value > k_tokens_max;
  return std::clamp<std::int64_t>(value, 0, k_tokens_max);
}

}  // namespace

usd_pico per_token(double usd_per_million) noexcept {
  return std::llround(std::clamp(usd_per_million, 0.0, k_usd_per_million_max) * k_pico_per_usd_million);
}

usage split(const reported_usage& reported, counting how) noexcept {
  usage out;
  out.output = bounded(reported.completion_tokens, out.clamped);
  out.cache_read = bounded(std::max<std::int64_t>(0, reported.cache_read_tokens), out.clamped);
  out.cache_write = bounded(std::max<std::int64_t>(0, reported.cache_write_tokens), out.clamped);
  const std::int64_t prompt = bounded(reported.prompt_tokens, out.clamped);
  if (how == counting::cached_apart) {
    out.fresh = prompt;
    return out;
  }
  if (out.cache_read + out.cache_write > prompt) out.clamped = true;
  out.cache_read = std::min(out.cache_read, prompt);
  out.cache_write = std::min(out.cache_write, prompt - out.cache_read);
  out.fresh = prompt - out.cache_read - out.cache_write;
  return out;
}

charge price(const usage& tokens, std::span<const price_tier> tiers) noexcept {
  const auto& p = tier_for(tokens.prompt(), tiers);
  sum out;
  out.add(tokens.fresh, p.fresh, std::nullopt);
  out.add(tokens.cache_read, p.cache_read, p.fresh);
  out.add(tokens.cache_write, p.cache_write, p.fresh);
  out.add(tokens.output, p.output, p.fresh);
  return out.result();
}

charge price_at_most(std::int64_t prompt_tokens, std::int64_t output_tokens,
                     std::span<const price_tier> tiers) noexcept {
  bool clamped = false;
  const std::int64_t prompt = bounded(prompt_tokens, clamped);
  const std::int64_t output = bounded(output_tokens, clamped);
  charge most;
  const auto take = [&](const usage& all) {
    const auto cost = price(all, tiers);
    most.amount = std::max(most.amount, cost.amount);
    most.unpriced = most.unpriced || cost.unpriced;
  };
  // Within a tier the longest prompt is the dearest one.
  const auto take_prompt = [&](std::int64_t tokens) {
    take({.fresh = tokens, .output = output});
    take({.cache_read = tokens, .output = output});
    take({.cache_write = tokens, .output = output});
  };
  for (const auto& tier : tiers) {
    if (tier.prompt_tokens_min > 0 && tier.prompt_tokens_min <= prompt) {
      take_prompt(tier.prompt_tokens_min - 1);
    }
  }
  take_prompt(prompt);
  return most;
}

}  // namespace weir::policy::limits
