// What a request's tokens cost at one target. Fresh, cache-read, cache-written and output tokens have prices
// of their own, and each token is charged once, whatever the provider counts into what. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "policy/limits/money.hpp"

namespace weir::policy::limits {

using usd_pico = std::int64_t;  // millionths of a millionth: a token of $0.0375 per million is 37'500
inline constexpr std::int64_t k_tokens_max = std::int64_t{1} << 40;  // counts from outside are cut to it

// USD per million tokens, as price lists have it; at most 1e6.
usd_pico per_token(double usd_per_million) noexcept;

// Prices of one token. A kind without a price of its own, output too, costs what a fresh token does, and the
// sum is marked: too dear is noticed, free is not (litellm counted cached tokens as nothing).
struct price_list {
  std::optional<usd_pico> fresh;
  std::optional<usd_pico> cache_read;
  std::optional<usd_pico> cache_write;
  std::optional<usd_pico> output;
};

// Prices of requests whose prompt has at least so many tokens; ascending, the first from 0.
struct price_tier {
  std::int64_t prompt_tokens_min = 0;
  price_list prices;
};

// How a provider counts: OpenAI's prompt_tokens include what came from the cache (and what was written to
// it), Anthropic's input_tokens do not.
enum class counting : std::uint8_t { cached_included, cached_apart };

// As the target reported it; negative: not reported.
struct reported_usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t cache_read_tokens = -1;
  std::int64_t cache_write_tokens = -1;
  std::int64_t completion_tokens = 0;
};

// Each token in exactly one place.
struct usage {
  std::int64_t fresh = 0;
  std::int64_t cache_read = 0;
  std::int64_t cache_write = 0;
  std::int64_t output = 0;
  bool clamped = false;  // the report contradicts itself or is out of range

  std::int64_t prompt() const noexcept { return fresh + cache_read + cache_write; }
  std::int64_t total() const noexcept { return prompt() + output; }
};

usage split(const reported_usage& reported, counting how) noexcept;

struct charge {
  usd_nano amount = 0;    // rounded up to the next thousand-millionth; saturates
  bool unpriced = false;  // some of the tokens have no price
};

// `tiers` may be empty: everything is unpriced and costs nothing.
charge price(const usage& tokens, std::span<const price_tier> tiers) noexcept;

// The most that a request of up to so many tokens may cost, whatever of its prompt is cached, and in
// whichever tier its prompt ends up.
charge price_at_most(std::int64_t prompt_tokens, std::int64_t output_tokens,
                     std::span<const price_tier> tiers) noexcept;

}  // namespace weir::policy::limits
