#include "loadtest/mock/prompt_tokens.hpp"

#include <catch2/catch.hpp>

namespace weir::loadtest::mock {
namespace {

TEST_CASE("a text's tokens are its bytes, four at a time") {
  std::vector<std::int32_t> tokens;
  append_tokens(
      "abcd\xff\xff\xff\xff"
      "e",
      tokens);
  CHECK(tokens == std::vector<std::int32_t>{0x64636261, 0x7fffffff, 0x65});
  tokens.clear();
  append_tokens("", tokens);
  CHECK(tokens.empty());
}

TEST_CASE("a chat's text names its roles") {
  std::string canonical;
  append_message("system", "be brief", canonical);
  append_message("user", "hi", canonical);
  CHECK(canonical == "system\nbe brief\nuser\nhi\n");
}

TEST_CASE("a chain has the whole blocks of all tokens but the last") {
  struct row {
    std::size_t tokens;
    std::size_t blocks;
  };
  for (const auto& [count, blocks] : {row{0, 0}, row{1, 0}, row{4, 0}, row{5, 1}, row{8, 1}, row{9, 2}}) {
    INFO(count << " tokens");
    CHECK(block_chain(std::vector<std::int32_t>(count, 7), 4, "").size() == blocks);
  }
}

TEST_CASE("a block's id stands for all before it, the salt and the size of blocks") {
  const std::vector<std::int32_t> tokens{1, 2, 3, 4, 5, 6, 7, 8, 9};
  auto other = tokens;
  other[1] = 0;
  auto later = tokens;
  later[6] = 0;
  const auto chain = block_chain(tokens, 2, "salt");
  REQUIRE(chain.size() == 4);
  CHECK(block_chain(tokens, 2, "salt") == chain);
  CHECK(block_chain(tokens, 2, "other")[0] != chain[0]);
  CHECK(block_chain(tokens, 2, "")[0] != chain[0]);
  CHECK(block_chain(other, 2, "salt")[3] != chain[3]);
  const auto shared = block_chain(later, 2, "salt");
  CHECK(shared[2] == chain[2]);
  CHECK(shared[3] != chain[3]);
  CHECK(block_chain(tokens, 4, "salt")[0] != chain[1]);
}

}  // namespace
}  // namespace weir::loadtest::mock
