#include "gateway/prompt/prompt_memory.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

namespace weir::gateway {
namespace {

using prefix_index::block_key;

block_key chunk(std::uint64_t i) {
  return {i * 0x9E3779B97F4A7C15ULL, i};
}

keying_state state_of(std::uint64_t i) {
  return {i, {static_cast<std::int32_t>(i), 2, 3}, {static_cast<std::uint32_t>(i), 5, true}};
}

TEST_CASE("what is remembered comes back whole") {
  prompt_memory memory;
  const std::vector<block_key> kept{{1, 2}, {3, 4}};
  memory.remember(chunk(1), kept, state_of(9));
  memory.remember(chunk(2), {}, {});
  std::vector<block_key> keys{{7, 7}};
  keying_state state;
  CHECK_FALSE(memory.recall(chunk(3), keys, state));
  CHECK(keys.size() == 1);
  REQUIRE(memory.recall(chunk(1), keys, state));
  CHECK(keys == std::vector<block_key>{{7, 7}, {1, 2}, {3, 4}});
  CHECK(state.tokens == 9);
  CHECK(state.unfinished == std::vector<std::int32_t>{9, 2, 3});
  CHECK(state.text == engine::text::text_state{9, 5, true});
  REQUIRE(memory.recall(chunk(2), keys, state));
  CHECK(keys.size() == 3);
  CHECK(state.unfinished.empty());
}

TEST_CASE("bytes stay bounded and the least recently used go first") {
  prompt_memory memory(64'000);
  std::vector<block_key> keys;
  keying_state state;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    memory.remember(chunk(i), std::vector<block_key>(16), state_of(i));
    CHECK(memory.recall(chunk(0), keys, state));  // used all the time, so never gone
    REQUIRE(memory.bytes() <= memory.bytes_max());
  }
  CHECK(memory.recall(chunk(9'999), keys, state));
  CHECK_FALSE(memory.recall(chunk(1'000), keys, state));
}

TEST_CASE("an entry that is larger than a shard is not kept") {
  prompt_memory memory(16'000);
  memory.remember(chunk(1), std::vector<block_key>(1'000), {});
  CHECK(memory.bytes() == 0);
}

TEST_CASE("many threads") {
  prompt_memory memory(100'000);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&memory, &wrong, t] {
      for (std::uint64_t i = 0; i < 4'000; ++i) {
        const std::uint64_t n = (i * 7 + static_cast<std::uint64_t>(t)) % 500;
        std::vector<block_key> keys;
        keying_state state;
        if (memory.recall(chunk(n), keys, state) && (keys.size() != n % 5 || state.tokens != n)) ++wrong;
        memory.remember(chunk(n), std::vector<block_key>(n % 5), state_of(n));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(memory.bytes() <= memory.bytes_max());
}

}  // namespace
}  // namespace weir::gateway
