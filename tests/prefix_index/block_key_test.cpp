#include "prefix_index/block_key.hpp"

#include <catch2/catch.hpp>
#include <numeric>
#include <set>
#include <utility>

namespace weir::prefix_index {
namespace {

constexpr std::array<std::byte, 16> k_salt{std::byte{1}, std::byte{2}, std::byte{3}};

block_key test_root(std::string_view scope = "team-a") {
  return root_key({.salt = k_salt, .model = "m", .adapter = "", .scope = scope});
}

std::vector<std::int32_t> counting_tokens(std::size_t count) {
  std::vector<std::int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST_CASE("only whole units have a key") {
  for (const auto& [token_count, key_count] :
       {std::pair{0UL, 0UL}, {63, 0}, {64, 1}, {127, 1}, {128, 2}, {6400, 100}}) {
    CHECK(chain_keys(test_root(), counting_tokens(token_count)).size() == key_count);
  }
}

TEST_CASE("a common prefix gives common keys, and everything after the first difference differs") {
  const auto a = counting_tokens(640);
  for (const std::size_t changed : {0UL, 63UL, 64UL, 300UL, 639UL}) {
    auto b = a;
    b[changed] += 1;
    const auto keys_a = chain_keys(test_root(), a);
    const auto keys_b = chain_keys(test_root(), b);
    for (std::size_t i = 0; i < keys_a.size(); ++i) {
      INFO("changed token " << changed << ", unit " << i);
      CHECK((keys_a[i] == keys_b[i]) == (i < changed / 64));
    }
  }
}

TEST_CASE("a chain can be continued from any of its keys") {
  const auto tokens = counting_tokens(256);
  const auto keys = chain_keys(test_root(), tokens);
  const auto rest = chain_keys(keys[1], std::span(tokens).subspan(128));
  CHECK(rest.back() == keys.back());
}

TEST_CASE("salt, model, adapter and scope separate chains") {
  auto other_salt = k_salt;
  other_salt[15] = std::byte{9};
  std::set<std::pair<std::uint64_t, std::uint64_t>> roots;
  const chain_scope scopes[] = {
      {k_salt, "m", "", "a"},  {other_salt, "m", "", "a"}, {k_salt, "n", "", "a"},
      {k_salt, "m", "l", "a"}, {k_salt, "m", "", "b"},     {k_salt, "ma", "", ""},
  };
  for (const auto& scope : scopes) {
    const auto key = root_key(scope);
    roots.emplace(key.low, key.high);
  }
  CHECK(roots.size() == std::size(scopes));
}

TEST_CASE("keys are stable across builds, since they are persisted") {
  const auto keys = chain_keys(test_root(), counting_tokens(128));
  CHECK(keys[0] == block_key{0xe771b81751ce55b5, 0x661ceddf0c857c10});
}

}  // namespace
}  // namespace weir::prefix_index
