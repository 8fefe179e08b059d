// Prompt tokens to a chain of keys, one per unit of tokens: equal keys mean equal prompts up to there, within
// one sharing scope.
//   key_0 = XXH3-128(secret salt, model, adapter, scope);  key_i = XXH3-128(key_{i-1}, tokens of unit i)
// The salt is secret and persisted per site, so keys cannot be guessed across tenants. Tokens enter as
// little-endian uint32. Pure functions; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weir::prefix_index {

inline constexpr std::size_t k_unit_tokens_default = 64;

struct block_key {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend bool operator==(const block_key&, const block_key&) = default;
};

// What two prompts must share besides their tokens before they may share state.
struct chain_scope {
  std::span<const std::byte> salt;  // the site's secret, at least 16 bytes
  std::string_view model;
  std::string_view adapter;  // LoRA name or empty
  std::string_view scope;    // the tenant's sharing scope
};

// REQUIRES: scope.salt.size() >= 16.
block_key root_key(const chain_scope& scope);

block_key next_key(const block_key& previous, std::span<const std::int32_t> unit);

// The same for a chunk of text instead of tokens. Chains of different tags share no keys.
block_key next_text_key(const block_key& previous, std::uint64_t tag, std::string_view text);

// Keys of all whole units of `tokens`; a partial last unit has no key. REQUIRES: unit_tokens > 0.
std::vector<block_key> chain_keys(const block_key& root, std::span<const std::int32_t> tokens,
                                  std::size_t unit_tokens = k_unit_tokens_default);

}  // namespace weir::prefix_index
