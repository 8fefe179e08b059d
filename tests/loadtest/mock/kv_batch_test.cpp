// What the mock writes is what the gateway's decoder reads, in every form.
#include "loadtest/mock/kv_batch.hpp"

#include <catch2/catch.hpp>
#include <numeric>

#include "gateway/kv_events/decoder.hpp"
#include "loadtest/mock/prompt_tokens.hpp"

namespace weir::loadtest::mock {
namespace {

namespace index = prefix_index;
using truth::part;

struct sample {
  explicit sample(std::string_view salt_given) : salt(salt_given) {
    std::iota(tokens.begin(), tokens.end(), 100);
    chain = block_chain(tokens, 4, salt);
  }
  prompt_state state(std::size_t resumed = 0) const { return {tokens, chain, salt, 4, resumed}; }

  std::string salt;
  std::vector<std::int32_t> tokens = std::vector<std::int32_t>(22);
  std::vector<truth::block_id> chain;  // 5 blocks
};

index::kv_batch decoded(const std::string& batch) {
  REQUIRE_FALSE(batch.empty());
  const auto out = gateway::kv_events::decode_batch(std::as_bytes(std::span(batch)));
  REQUIRE(out);
  CHECK(out->skipped.total() == 0);
  return out->batch;
}

std::vector<truth::cache_change> changes_of(const sample& of) {
  return {
      {of.chain[4], part::page, true},
      {99, part::page, false},
      {of.chain[3], part::page, true},
      {98, part::checkpoint, false},
      {97, part::page, true},
      {97, part::page, false},
      {of.chain[1], part::page, true},
      {96, part::page, false},
      {96, part::page, true},
      {of.chain[4], part::checkpoint, true},
      {of.chain[2], part::checkpoint, true},
      {of.chain[0], part::checkpoint, false},
  };
}

TEST_CASE("a hybrid model's step tells of each group") {
  const auto form = GENERATE(kv_form::vllm_map, kv_form::vllm_array);
  const sample of("salt");
  const auto batch = decoded(write_kv_batch(form, of.state(), changes_of(of), true, 2.5));
  CHECK(batch.time_s == 2.5);
  REQUIRE(batch.events.size() == 3 + 1 + 6 + 2);
  for (std::int32_t g = 0; g < 3; ++g) {
    const auto& gone = std::get<index::kv_removed>(batch.events[static_cast<std::size_t>(g)]);
    CHECK(gone.group_index == g);
    CHECK(gone.hashes == std::vector<index::engine_hash>{98, of.chain[0]});
    const auto& first = std::get<index::kv_stored>(batch.events[static_cast<std::size_t>(4 + g)]);
    CHECK(first.group == index::kv_group::checkpoint);
    CHECK(first.group_index == g);
    CHECK(first.hashes == std::vector<index::engine_hash>{of.chain[2]});
    CHECK_FALSE(first.parent);
    CHECK(first.tokens.size() == 12);
    CHECK(first.cache_salt == "salt");
    const auto& second = std::get<index::kv_stored>(batch.events[static_cast<std::size_t>(7 + g)]);
    CHECK(second.parent == of.chain[2]);
    CHECK(second.hashes == std::vector<index::engine_hash>{of.chain[4]});
    CHECK(second.tokens == std::vector<std::int32_t>(of.tokens.begin() + 12, of.tokens.begin() + 20));
    CHECK(second.cache_salt.empty());
  }
  const auto& gone = std::get<index::kv_removed>(batch.events[3]);
  CHECK(gone.group_index == 3);
  CHECK(gone.hashes == std::vector<index::engine_hash>{99});
  const auto& one = std::get<index::kv_stored>(batch.events[10]);
  CHECK(one.group == index::kv_group::pages);
  CHECK(one.group_index == 3);
  CHECK(one.parent == of.chain[0]);
  CHECK(one.hashes == std::vector<index::engine_hash>{of.chain[1]});
  CHECK(one.tokens == std::vector<std::int32_t>(of.tokens.begin() + 4, of.tokens.begin() + 8));
  CHECK(one.block_tokens == 4);
  const auto& two = std::get<index::kv_stored>(batch.events[11]);
  CHECK(two.parent == of.chain[2]);
  CHECK(two.hashes.size() == 2);
}

TEST_CASE("sglang tells of pages alone, with the salt beside them") {
  const sample of("salt");
  const auto batch = decoded(write_kv_batch(kv_form::sglang, of.state(), changes_of(of), true, 2.5));
  REQUIRE(batch.events.size() == 3);
  CHECK(std::get<index::kv_removed>(batch.events[0]).hashes == std::vector<index::engine_hash>{99});
  CHECK_FALSE(std::get<index::kv_removed>(batch.events[0]).group_index);
  const auto& one = std::get<index::kv_stored>(batch.events[1]);
  CHECK(one.group == index::kv_group::pages);
  CHECK(one.hashes == std::vector<index::engine_hash>{of.chain[1]});
  CHECK(one.cache_salt == "salt");
}

TEST_CASE("attention alone has one group and starts at the prompt's start") {
  const auto form = GENERATE(kv_form::vllm_map, kv_form::vllm_array, kv_form::sglang);
  const sample of("");
  const std::vector<truth::cache_change> changes{{of.chain[1], part::page, true},
                                                 {of.chain[0], part::page, true}};
  const auto batch = decoded(write_kv_batch(form, of.state(), changes, false, 1));
  REQUIRE(batch.events.size() == 1);
  const auto& stored = std::get<index::kv_stored>(batch.events[0]);
  CHECK(stored.group == index::kv_group::pages);
  CHECK(stored.group_index == 0);
  CHECK_FALSE(stored.parent);
  CHECK(stored.hashes == std::vector<index::engine_hash>{of.chain[0], of.chain[1]});
  CHECK(stored.tokens == std::vector<std::int32_t>(of.tokens.begin(), of.tokens.begin() + 8));
  CHECK(stored.cache_salt.empty());
  CHECK(write_kv_batch(form, of.state(), {}, false, 1).empty());
  const auto cleared = decoded(write_cleared_batch(form, 1));
  REQUIRE(cleared.events.size() == 1);
  CHECK(std::holds_alternative<index::kv_cleared>(cleared.events[0]));
}

}  // namespace
}  // namespace weir::loadtest::mock
