#include "prefix_index/block_key.hpp"

#define XXH_STATIC_LINKING_ONLY  // the streaming state on the stack instead of one allocation per unit
#include <xxhash.h>

#include <bit>
#include <cassert>
#include <string>

namespace weir::prefix_index {

namespace {

static_assert(std::endian::native == std::endian::little, "tokens are hashed as they lie in memory");

block_key to_key(XXH128_hash_t h) {
  return {.low = h.low64, .high = h.high64};
}

// Length first, so that no two different field lists give the same bytes.
void append_field(std::string& out, std::string_view field) {
  const std::uint64_t size = field.size();
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out.append(field);
}

}  // namespace

block_key root_key(const chain_scope& scope) {
  assert(scope.salt.size() >= 16);
  std::string bytes;
  append_field(bytes, {reinterpret_cast<const char*>(scope.salt.data()), scope.salt.size()});
  append_field(bytes, scope.model);
  append_field(bytes, scope.adapter);
  append_field(bytes, scope.scope);
  return to_key(XXH3_128bits(bytes.data(), bytes.size()));
}

block_key next_key(const block_key& previous, std::span<const std::int32_t> unit) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, &previous, sizeof previous);
  XXH3_128bits_update(&state, unit.data(), unit.size_bytes());
  return to_key(XXH3_128bits_digest(&state));
}

block_key next_text_key(const block_key& previous, std::uint64_t tag, std::string_view text) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, &previous, sizeof previous);
  XXH3_128bits_update(&state, &tag, sizeof tag);
  XXH3_128bits_update(&state, text.data(), text.size());
  return to_key(XXH3_128bits_digest(&state));
}

std::vector<block_key> chain_keys(const block_key& root, std::span<const std::int32_t> tokens,
                                  std::size_t unit_tokens) {
  assert(unit_tokens > 0);
  std::vector<block_key> keys;
  keys.reserve(tokens.size() / unit_tokens);
  block_key previous = root;
  for (std::size_t at = 0; at + unit_tokens <= tokens.size(); at += unit_tokens) {
    previous = next_key(previous, tokens.subspan(at, unit_tokens));
    keys.push_back(previous);
  }
  return keys;
}

}  // namespace weir::prefix_index
