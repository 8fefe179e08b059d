#include <catch2/catch.hpp>
#include <functional>
#include <random>

#include "tests/gateway/kv_events/event_payloads.hpp"

namespace weir::gateway::kv_events {
namespace {

using namespace testing;

// What an event of two blocks of two tokens must come to, but for what a row changes.
index::kv_stored two_blocks(const std::function<void(index::kv_stored&)>& change = {}) {
  index::kv_stored out;
  out.hashes = {0xf000000000000001ULL, 2};
  out.tokens = {1, 2, 3, 4};
  out.block_tokens = 2;
  if (change) change(out);
  return out;
}

void check_stored(const index::kv_stored& event, const index::kv_stored& expected) {
  CHECK(event.hashes == expected.hashes);
  CHECK(event.parent == expected.parent);
  CHECK(event.tokens == expected.tokens);
  CHECK(event.block_tokens == expected.block_tokens);
  CHECK(event.medium == expected.medium);
  CHECK(event.group == expected.group);
  CHECK(event.group_index == expected.group_index);
  CHECK(event.adapter == expected.adapter);
  CHECK(event.cache_salt == expected.cache_salt);
}

struct stored_row {
  const char* name;
  json event;
  index::kv_stored expected;
};

const json k_hashes = {0xf000000000000001ULL, 2};

json array_of(std::initializer_list<json> rest) {
  json out = {"BlockStored", k_hashes, nullptr, k_four, 2, nullptr};
  for (const auto& one : rest) out.push_back(one);
  return out;
}

std::vector<stored_row> vllm_arrays() {
  return {
      {"vllm: the first arrays", array_of({}), two_blocks()},
      {"vllm: arrays with medium", array_of({"CPU"}),
       two_blocks([](auto& e) { e.medium = index::kv_medium::host; })},
      {"vllm: arrays with a LoRA's name", array_of({"GPU", "tuned"}),
       two_blocks([](auto& e) { e.adapter = "tuned"; })},
      {"vllm: arrays with extra keys", array_of({"GPU", nullptr, {{"salt"}, nullptr}}),
       two_blocks([](auto& e) { e.cache_salt = "salt"; })},
      {"vllm: arrays with a group", array_of({"GPU", nullptr, {nullptr, nullptr}, 3}),
       two_blocks([](auto& e) { e.group = index::kv_group::other, e.group_index = 3; })},
      {"vllm: arrays with a kind", array_of({"GPU", nullptr, nullptr, 3, "mla_attention", nullptr}),
       two_blocks([](auto& e) { e.group_index = 3; })},
      {"vllm: arrays with locality",
       array_of({"GPU", nullptr, nullptr, 0, "full_attention", nullptr, "LOCAL"}), two_blocks()},
      {"vllm: arrays of days to come",
       array_of({"FS", nullptr, nullptr, 0, "full_attention", 7, nullptr, {{"x", {1}}}}),
       two_blocks([](auto& e) { e.medium = index::kv_medium::storage; })},
  };
}

std::vector<stored_row> vllm_maps() {
  return {
      {"vllm: maps", k_observed, two_blocks()},
      {"vllm: maps, further keys", observed_with({{"remaining_copy_counts", {1, {{"deep", {2}}}}}}),
       two_blocks()},
      {"vllm: digests",
       observed_with({{"block_hashes", {digest(7), digest(8)}}, {"parent_block_hash", digest(6)}}),
       two_blocks([](auto& e) {
         e.hashes = {7, 8}, e.parent = 6;
       })},
      {"vllm: a checkpoint, one hash for many blocks",
       observed_with({{"block_hashes", {2}}, {"group_idx", 1}, {"kv_cache_spec_kind", "mamba"}}),
       two_blocks([](auto& e) { e.hashes = {2}, e.group = index::kv_group::checkpoint, e.group_index = 1; })},
      {"vllm: known hash, unknown tokens", observed_with({{"token_ids", json::array()}, {"block_size", 0}}),
       two_blocks([](auto& e) { e.tokens.clear(), e.block_tokens = 0; })},
      {"vllm: a LoRA's name and a salt in the extra keys",
       observed_with({{"lora_id", 4}, {"extra_keys", {{"tuned", "salt"}, {"tuned"}}}}),
       two_blocks([](auto& e) { e.adapter = "tuned", e.cache_salt = "salt"; })},
      {"vllm: a LoRA's number alone", observed_with({{"lora_id", 4}, {"extra_keys", {{4}, {4}}}}),
       two_blocks([](auto& e) { e.adapter = "lora_id:4"; })},
      {"vllm: an image in the second block", observed_with({{"extra_keys", {nullptr, {{"image-hash", 0}}}}}),
       two_blocks([](auto& e) { e.hashes.resize(1), e.tokens.resize(2); })},
      {"vllm: an image's name in the second block",
       observed_with({{"extra_keys", {{"salt"}, {"image-hash"}}}}),
       two_blocks([](auto& e) { e.hashes.resize(1), e.tokens.resize(2), e.cache_salt = "salt"; })},
      {"vllm: sliding window", observed_with({{"kv_cache_spec_kind", "sliding_window"}}),
       two_blocks([](auto& e) { e.group = index::kv_group::other; })},
      {"sink attention", observed_with({{"kv_cache_spec_kind", "sink_full_attention"}}), two_blocks()},
  };
}

std::vector<stored_row> others() {
  const json negative = static_cast<std::int64_t>(0xf000000000000001ULL);
  return {
      {"fewer tokens than hashes", observed_with({{"token_ids", {1, 2, 3}}}),
       two_blocks([](auto& e) { e.hashes.resize(1), e.tokens.resize(2); })},
      {"more tokens than hashes", observed_with({{"token_ids", {1, 2, 3, 4, 5, 6}}}), two_blocks()},
      {"sglang: signed hashes",
       {"BlockStored", {negative, 2}, negative, k_four, 2, nullptr},
       two_blocks([](auto& e) { e.parent = 0xf000000000000001ULL; })},
      {"sglang: host memory", array_of({"CPU_TIER1"}),
       two_blocks([](auto& e) { e.medium = index::kv_medium::host; })},
      {"sglang: the second tier", array_of({"CPU_TIER2"}),
       two_blocks([](auto& e) { e.medium = index::kv_medium::host; })},
      {"sglang: a salt", array_of({"GPU", {{"session_id", "s"}, {"cache_salt", "salt"}}}),
       two_blocks([](auto& e) { e.cache_salt = "salt"; })},
      {"sglang: no salt", array_of({"GPU", {{"cache_salt", nullptr}}}), two_blocks()},
      {"pairs under speculation",
       {"BlockStored", k_hashes, nullptr, {{1, 2}, {2, 3}, {3, 4}, {4, 5}}, 2, nullptr},
       two_blocks()},
      {"object storage", observed_with({{"medium", "OBJ"}}),
       two_blocks([](auto& e) { e.medium = index::kv_medium::storage; })},
      {"storage", observed_with({{"medium", "STORAGE"}}),
       two_blocks([](auto& e) { e.medium = index::kv_medium::storage; })},
  };
}

std::vector<stored_row> generations() {
  std::vector<stored_row> out;
  for (const auto& rows : {vllm_arrays(), vllm_maps(), others()})
    out.insert(out.end(), rows.begin(), rows.end());
  return out;
}

TEST_CASE("stored blocks mean the same in every form") {
  for (const auto& row : generations()) {
    INFO(row.name);
    const auto decoded = decode(packed_event(row.event));
    REQUIRE(decoded);
    REQUIRE(decoded->batch.events.size() == 1);
    CHECK(decoded->skipped.total() == 0);
    CHECK(decoded->batch.time_s == 1.5);
    REQUIRE(std::holds_alternative<index::kv_stored>(decoded->batch.events[0]));
    check_stored(std::get<index::kv_stored>(decoded->batch.events[0]), row.expected);
  }
}

TEST_CASE("removed and cleared blocks mean the same in every form") {
  struct row {
    const char* name;
    json event;
    index::kv_removed expected;
  };
  const row rows[] = {
      {"the first arrays", {"BlockRemoved", {1, 2}}, {{1, 2}, index::kv_medium::device, {}}},
      {"arrays with medium", {"BlockRemoved", {1}, "CPU"}, {{1}, index::kv_medium::host, {}}},
      {"arrays with a group", {"BlockRemoved", {1}, "GPU", 3, "LOCAL"}, {{1}, index::kv_medium::device, 3}},
      {"arrays of days to come",
       {"BlockRemoved", {1}, "GPU", 3, nullptr, {0}},
       {{1}, index::kv_medium::device, 3}},
      {"maps",
       {{"type", "BlockRemoved"}, {"block_hashes", {digest(9)}}, {"medium", nullptr}, {"group_idx", 0}},
       {{9}, index::kv_medium::device, 0}},
  };
  for (const auto& one : rows) {
    INFO(one.name);
    const auto decoded = decode(packed_event(one.event));
    REQUIRE(decoded);
    REQUIRE(decoded->batch.events.size() == 1);
    const auto& event = std::get<index::kv_removed>(decoded->batch.events[0]);
    CHECK(event.hashes == one.expected.hashes);
    CHECK(event.medium == one.expected.medium);
    CHECK(event.group_index == one.expected.group_index);
  }
  for (const auto& event : {json{{"type", "AllBlocksCleared"}}, json{"AllBlocksCleared"}}) {
    const auto decoded = decode(packed_event(event));
    REQUIRE(decoded);
    REQUIRE(decoded->batch.events.size() == 1);
    CHECK(std::holds_alternative<index::kv_cleared>(decoded->batch.events[0]));
  }
}

TEST_CASE("a batch is an array or a map, with or without a rank") {
  struct row {
    const char* name;
    json batch;
    std::int32_t rank = 0;
  };
  const json events = {{"AllBlocksCleared"}, k_observed};
  const row rows[] = {
      {"array without rank", {2, events}},
      {"array with no rank", {2, events, nullptr}},
      {"array with rank", {2, events, 3}, 3},
      {"array with more", {2, events, 3, {1, {2}}}, 3},
      {"vllm's map", {{"ts", 2}, {"events", events}, {"data_parallel_rank", 5}}, 5},
      {"sglang's map", {{"events", events}, {"ts", 2}, {"attn_dp_rank", 6}, {"more", {{"x", 1}}}}, 6},
  };
  for (const auto& one : rows) {
    INFO(one.name);
    const auto decoded = decode(packed(one.batch));
    REQUIRE(decoded);
    CHECK(decoded->batch.events.size() == 2);
    CHECK(decoded->batch.time_s == 2);
    CHECK(decoded->batch.data_parallel_rank == one.rank);
  }
}

TEST_CASE("what is no evidence for prefixes of text is left out and counted") {
  struct row {
    const char* name;
    json event;
    std::uint32_t skipped_events::*counted;
  };
  const row rows[] = {
      {"an event of days to come, as an array",
       {"BlockMoved", {1, {{"x", 2}}}},
       &skipped_events::unknown_type},
      {"an event of days to come, as a map",
       {{"type", "BlockMoved"}, {"x", {1}}},
       &skipped_events::unknown_type},
      {"an image in the first block", observed_with({{"extra_keys", {{{"image-hash", 0}}, nullptr}}}),
       &skipped_events::not_text},
      {"an image's name behind a salt", observed_with({{"extra_keys", {{"image-hash", "salt"}, nullptr}}}),
       &skipped_events::not_text},
      {"an image's name in a later block",
       observed_with({{"parent_block_hash", 1}, {"extra_keys", {{"image-hash"}, nullptr}}}),
       &skipped_events::not_text},
      {"a digest of embeddings", observed_with({{"extra_keys", {{digest(1)}, nullptr}}}),
       &skipped_events::not_text},
      {"a checkpoint behind an image",
       observed_with({{"kv_cache_spec_kind", "mamba"}, {"extra_keys", {nullptr, {{"image-hash", 0}}}}}),
       &skipped_events::not_text},
      {"another LoRA's number", observed_with({{"lora_id", 4}, {"extra_keys", {{5}, {5}}}}),
       &skipped_events::not_text},
      {"held by a peer", observed_with({{"locality", "REMOTE"}}), &skipped_events::not_local},
      {"held somewhere", observed_with({{"locality", "NEARBY"}}), &skipped_events::not_local},
      {"removed from a peer", {"BlockRemoved", {1}, "CPU", 0, "REMOTE"}, &skipped_events::not_local},
      {"a medium of days to come", observed_with({{"medium", "TAPE"}}), &skipped_events::unknown_medium},
      {"no whole block of tokens", observed_with({{"token_ids", {1}}}), &skipped_events::inconsistent},
      {"no hashes", observed_with({{"block_hashes", json::array()}}), &skipped_events::inconsistent},
  };
  for (const auto& one : rows) {
    INFO(one.name);
    const auto decoded = decode(packed(json::array({1.5, {one.event, {"AllBlocksCleared"}}, 0})));
    REQUIRE(decoded);
    CHECK(decoded->batch.events.size() == 1);
    CHECK(decoded->skipped.*one.counted == 1);
    CHECK(decoded->skipped.total() == 1);
  }
}

TEST_CASE("no cut and no changed byte of a batch does harm") {
  constexpr unsigned k_seed = 5;
  INFO("seed " << k_seed);
  std::mt19937 random(k_seed);
  std::size_t refused = 0;
  for (const auto& row : generations()) {
    const auto whole = packed_event(row.event);
    for (std::size_t size = 0; size < whole.size(); ++size)
      CHECK_FALSE(decode(bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))));
    for (int n = 0; n < 500; ++n) {
      auto changed = whole;
      changed[random() % changed.size()] = static_cast<std::uint8_t>(random());
      if (!decode(changed)) ++refused;
    }
  }
  CHECK(refused > 1'000);
}

}  // namespace
}  // namespace weir::gateway::kv_events
