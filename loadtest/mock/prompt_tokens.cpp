#include "loadtest/mock/prompt_tokens.hpp"

#include <bit>
#include <cassert>
#include <cstring>

namespace weir::loadtest::mock {

namespace {

constexpr std::size_t k_token_bytes = 4;
constexpr std::int32_t k_token_mask = 0x7fffffff;

std::uint64_t mix(std::uint64_t state, std::uint64_t more) {
  return std::rotl(state ^ (more * 0x9e3779b97f4a7c15), 27) * 0xd6e8feb86659fd93 + 0x52dce729;
}

std::uint64_t finish(std::uint64_t state) {
  state = (state ^ (state >> 32)) * 0xd6e8feb86659fd93;
  state = (state ^ (state >> 32)) * 0xd6e8feb86659fd93;
  return state ^ (state >> 32);
}

}  // namespace

void append_message(std::string_view role, std::string_view text, std::string& canonical) {
  canonical += role;
  canonical += '\n';
  canonical += text;
  canonical += '\n';
}

void append_tokens(std::string_view canonical, std::vector<std::int32_t>& tokens) {
  if (canonical.empty()) return;
  const auto whole = canonical.size() / k_token_bytes;
  const auto first = tokens.size();
  const auto rest = canonical.substr(whole * k_token_bytes);
  tokens.resize(first + whole + (rest.empty() ? 0 : 1));
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(tokens.data() + first, canonical.data(), whole * k_token_bytes);
  std::memcpy(tokens.data() + first + whole, rest.data(), rest.size());
  for (auto at = tokens.begin() + static_cast<std::ptrdiff_t>(first); at != tokens.end(); ++at)
    *at &= k_token_mask;
}

std::vector<std::uint64_t> block_chain(std::span<const std::int32_t> tokens, std::size_t block_tokens,
                                       std::string_view salt) {
  assert(block_tokens > 0);
  std::uint64_t state = mix(block_tokens, salt.size());
  for (const char c : salt) state = mix(state, static_cast<unsigned char>(c));
  std::vector<std::uint64_t> out(tokens.empty() ? 0 : (tokens.size() - 1) / block_tokens);
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (const auto token : tokens.subspan(i * block_tokens, block_tokens))
      state = mix(state, static_cast<std::uint32_t>(token));
    out[i] = finish(state);
  }
  return out;
}

}  // namespace weir::loadtest::mock
