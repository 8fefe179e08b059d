#include "prefix_index/event_source.hpp"

#include <catch2/catch.hpp>
#include <numeric>

#include "prefix_index/replica_model.hpp"

namespace weir::prefix_index {
namespace {

constexpr replica_id k_replica = 2;
const block_key k_root{.low = 11, .high = 12};

std::optional<block_key> one_scope(std::string_view adapter, std::string_view salt) {
  if (salt == "stranger") return std::nullopt;
  return adapter.empty() ? k_root : block_key{.low = 21, .high = 22};
}

std::vector<std::int32_t> counting(std::size_t count, std::int32_t first = 0) {
  std::vector<std::int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

kv_stored stored(std::vector<engine_hash> hashes, std::optional<engine_hash> parent,
                 std::uint32_t block_tokens, std::int32_t first_token) {
  kv_stored e{.parent = parent, .block_tokens = block_tokens};
  e.tokens = counting(hashes.size() * block_tokens, first_token);
  e.hashes = std::move(hashes);
  return e;
}

kv_removed removed(std::vector<engine_hash> hashes, std::optional<std::int32_t> group = std::nullopt) {
  return {.hashes = std::move(hashes), .group_index = group};
}

struct fixture {
  explicit fixture(event_source_options options = {}) : source(index, k_replica, options, one_scope) {}

  template <typename... Events>
  event_step send(Events... events) {
    kv_batch batch;
    (batch.events.emplace_back(std::move(events)), ...);
    return source.received(sequence++, batch);
  }

  holding held(std::size_t tokens, block_key root = k_root) const {
    const auto chain = chain_keys(root, counting(tokens));
    holding out;
    index.find(chain, std::span(&k_replica, 1), std::span(&out, 1));
    return out;
  }

  residency_index index;
  event_source source;
  std::uint64_t sequence = 0;
};

TEST_CASE("stored blocks become units by their parents, removed ones leave") {
  fixture f;
  f.send(stored({1, 2}, std::nullopt, 64, 0));
  f.send(stored({3}, 2, 64, 128));
  CHECK(f.held(640).pages == 3);
  CHECK(f.held(640).checkpoint == 3);  // no recurrent state: every boundary can be resumed
  CHECK(f.held(640).pages_from == confidence::confirmed);
  f.send(removed({3, 99}));
  CHECK(f.held(640).pages == 2);
  CHECK(f.source.counters().unknown_removed == 1);
  f.send(stored({1, 2}, std::nullopt, 64, 0), removed({1, 2}));  // another copy came and went
  CHECK(f.held(640).pages == 2);
  f.send(kv_cleared{});
  CHECK(f.held(640).pages == 0);
  f.send(stored({4}, 2, 64, 128));  // its parent went with the clear
  CHECK(f.source.counters().unknown_parent == 1);
  CHECK(f.held(640).pages == 0);
}

TEST_CASE("a second hash of a prompt is refused: its removal does not end the first one's block") {
  for (const std::uint32_t block_tokens : {64, 128}) {
    CAPTURE(block_tokens);
    const std::size_t units = block_tokens / 64;
    fixture f;
    f.send(stored({1}, std::nullopt, block_tokens, 0));
    f.send(stored({2, 3}, std::nullopt, block_tokens, 0));
    CHECK(f.source.counters().malformed == 1);
    CHECK(f.held(640).pages == units);
    f.send(removed({2}), removed({2}), removed({3}));
    CHECK(f.source.counters().unknown_removed == 3);
    CHECK(f.held(640).pages == units);
    f.send(removed({1}));
    CHECK(f.held(640).pages == 0);
    f.send(stored({2}, std::nullopt, block_tokens, 0));
    CHECK(f.held(640).pages == units);
  }
}

TEST_CASE("more blocks than can be counted share a unit that none of their removals ends") {
  fixture f;
  constexpr engine_hash k_blocks = 300;
  std::vector<engine_hash> all;
  for (engine_hash hash = 1; hash <= k_blocks; ++hash) {
    auto e = stored({hash}, std::nullopt, 128, 0);
    e.tokens.back() = static_cast<std::int32_t>(1000 + hash);
    f.send(e);
    all.push_back(hash);
  }
  CHECK(f.held(64).pages == 1);
  const engine_hash kept = all.back();
  all.pop_back();
  f.send(removed(all));
  CHECK(f.held(64).pages == 1);
  f.send(stored({400}, kept, 128, 500));
  CHECK(f.source.counters().unknown_parent == 0);
  CHECK(f.source.counters().malformed == 0);
}

TEST_CASE("blocks smaller than a unit make it present when all are") {
  fixture f;
  f.send(stored({1, 2, 3}, std::nullopt, 16, 0));
  CHECK(f.held(640).pages == 0);
  f.send(stored({4, 5}, 3, 16, 48));
  CHECK(f.held(640).pages == 1);
  f.send(stored({6, 7, 8}, 5, 16, 80));
  CHECK(f.held(640).pages == 2);

  auto branch = stored({14}, 3, 16, 1000);  // another prompt that shares three quarters of the first unit
  f.send(branch);
  auto tokens = counting(48);
  tokens.insert(tokens.end(), branch.tokens.begin(), branch.tokens.end());
  const auto chain = chain_keys(k_root, tokens);
  const auto on_branch = [&] {
    holding out;
    f.index.find(chain, std::span(&k_replica, 1), std::span(&out, 1));
    return out.pages;
  };
  CHECK(on_branch() == 1);
  f.send(removed({2}));  // a part of both
  CHECK(on_branch() == 0);
  CHECK(f.held(640).pages == 0);
  f.send(stored({2}, 1, 16, 16));
  CHECK(on_branch() == 1);
  CHECK(f.held(640).pages == 2);
  f.send(removed({1, 2, 3, 4, 5, 6, 7, 8, 14}));
  CHECK(f.held(640).pages == 0);
  f.send(stored({4}, 3, 16, 48));
  CHECK(f.source.counters().unknown_parent == 1);  // nothing of it is left
}

TEST_CASE("a block larger than a unit gives several") {
  fixture f;
  f.send(stored({1, 2}, std::nullopt, 768, 0));
  CHECK(f.held(2000).pages == 24);
  f.send(removed({2}));
  CHECK(f.held(2000).pages == 12);
}

TEST_CASE("block sizes that do not fit refuse the source with a reason") {
  for (const std::uint32_t block : {48U, 100U, 65U}) {
    fixture f;
    const auto step = f.send(stored({1}, std::nullopt, block, 0));
    CHECK(step.what == event_step::kind::refused);
    CHECK(f.source.refusal().find(std::to_string(block)) != std::string_view::npos);
    CHECK(f.held(640).pages == 0);
  }
}

TEST_CASE("scopes: unknown salts are not indexed, adapters have their own root") {
  fixture f;
  auto e = stored({1}, std::nullopt, 64, 0);
  e.cache_salt = "stranger";
  f.send(e);
  CHECK(f.held(64).pages == 0);
  CHECK(f.source.counters().unknown_scope == 1);
  e.cache_salt = "";
  e.adapter = "lora";
  f.send(e);
  CHECK(f.held(64).pages == 0);
  CHECK(f.held(64, block_key{.low = 21, .high = 22}).pages == 1);
}

// As observed on a K3 worker: per chunk of 3,840 tokens three mamba events of one hash, equal to the last of
// the five page hashes of the chunk's MLA event.
void send_chunk(fixture& f, engine_hash first, std::optional<engine_hash> parent, std::int32_t first_token,
                int groups) {
  auto pages = stored({first, first + 1, first + 2, first + 3, first + 4}, parent, 768, first_token);
  pages.group_index = 3;
  kv_batch batch;
  for (int g = 0; g < groups; ++g) {
    kv_stored mamba = pages;
    mamba.hashes = {first + 4};
    mamba.group = kv_group::checkpoint;
    mamba.group_index = g;
    batch.events.emplace_back(std::move(mamba));
  }
  batch.events.emplace_back(std::move(pages));
  f.source.received(f.sequence++, batch);
}

TEST_CASE("a checkpoint counts when all groups hold it, at the place of the page with its hash") {
  fixture f({.has_checkpoints = true});
  send_chunk(f, 100, std::nullopt, 0, 3);
  send_chunk(f, 200, 104, 3840, 3);
  CHECK(f.held(10'000).pages == 120);
  CHECK(f.held(10'000).checkpoint == 120);
  CHECK(f.held(10'000).checkpoint_from == confidence::confirmed);
  send_chunk(f, 300, 204, 7680, 2);  // one group is missing
  CHECK(f.held(20'000).pages == 180);
  CHECK(f.held(20'000).checkpoint == 120);
  f.send(removed({204}, 1));
  CHECK(f.held(20'000).pages == 180);
  CHECK(f.held(20'000).checkpoint == 60);
  f.send(removed({300, 301, 302, 303, 304, 200, 201, 202, 203, 204, 104}, 3));  // page blocks, not states
  CHECK(f.held(20'000).pages == 48);
  CHECK(f.held(20'000).checkpoint == 0);
}

TEST_CASE("a checkpoint hash that no page block has is ambiguous and ignored") {
  fixture f({.has_checkpoints = true});
  auto mamba = stored({7}, std::nullopt, 768, 0);
  mamba.group = kv_group::checkpoint;
  mamba.group_index = 1;
  f.send(stored({5}, std::nullopt, 768, 0), mamba);
  CHECK(f.held(1000).pages == 12);
  CHECK(f.held(1000).checkpoint == 0);
  CHECK(f.source.counters().ambiguous_checkpoint == 1);
}

TEST_CASE("a gap asks for a replay, live batches wait for its end") {
  fixture f;
  const kv_batch first{.events = {stored({1}, std::nullopt, 64, 0)}};
  const kv_batch second{.events = {stored({2}, 1, 64, 64)}};
  const kv_batch third{.events = {stored({3}, 2, 64, 128)}};
  f.source.received(0, first);
  const auto step = f.source.received(2, third);
  REQUIRE(step.what == event_step::kind::replay);
  CHECK(step.from == 1);
  CHECK(f.held(640).pages == 1);
  f.source.replayed(1, second);
  f.source.replayed(2, third);
  const kv_batch fourth{.events = {stored({4}, 3, 64, 192)}};
  f.source.replayed(3, fourth);  // before its live copy
  CHECK(f.source.replay_ended().what == event_step::kind::go_on);
  CHECK(f.held(640).pages == 4);
  CHECK(f.source.received(3, fourth).what == event_step::kind::go_on);
  CHECK(f.source.counters().duplicates == 1);
  f.source.received(4, {.events = {removed({4, 3})}});
  CHECK(f.held(640).pages == 2);  // each was counted once
}

TEST_CASE("a replay that lacks batches clears the replica and goes on") {
  fixture f;
  f.source.received(0, {.events = {stored({1}, std::nullopt, 64, 0)}});
  REQUIRE(f.source.received(9, {.events = {stored({5}, std::nullopt, 64, 640)}}).what ==
          event_step::kind::replay);
  f.source.replayed(8, {.events = {stored({7}, std::nullopt, 64, 0)}});
  f.source.replay_ended();
  CHECK(f.held(640).pages == 1);
  CHECK(f.source.counters().cleared == 1);
  f.source.received(10, {.events = {removed({1})}});
  CHECK(f.source.counters().unknown_removed == 1);
}

TEST_CASE("replays without progress are bounded, then the replica starts empty") {
  fixture f;
  f.source.received(0, {.events = {stored({1}, std::nullopt, 64, 0)}});
  auto step = f.source.received(5, {.events = {stored({2}, std::nullopt, 64, 0)}});
  std::uint32_t asked = 0;
  while (step.what == event_step::kind::replay) {
    ++asked;
    REQUIRE(asked <= k_replay_attempts_max);
    step = f.source.replay_ended();
  }
  CHECK(asked == k_replay_attempts_max);
  CHECK(f.source.counters().replays_given_up == 1);
  CHECK(f.held(640).pages == 1);  // what came after the gap
  CHECK(f.source.received(6, {.events = {stored({3}, 2, 64, 64)}}).what == event_step::kind::go_on);
  CHECK(f.held(640).pages == 2);
}

TEST_CASE("an engine that starts again is cleared") {
  fixture f;
  for (std::uint64_t s = 0; s < 4; ++s) {
    f.source.received(s, {.events = {stored({s + 1}, s == 0 ? std::nullopt : std::optional(s), 64,
                                            static_cast<std::int32_t>(s) * 64)}});
  }
  REQUIRE(f.held(640).pages == 4);
  const auto step = f.source.received(1, {.events = {stored({9}, 8, 64, 64)}});
  CHECK(f.held(640).pages == 0);
  CHECK(f.source.counters().restarts == 1);
  REQUIRE(step.what == event_step::kind::replay);
  CHECK(step.from == 0);
  f.source.replayed(0, {.events = {stored({8}, std::nullopt, 64, 0)}});
  f.source.replay_ended();
  CHECK(f.held(640).pages == 2);
}

TEST_CASE("the first connection asks for everything; declining it is fine") {
  fixture f;
  const auto step = f.source.reconnected();
  REQUIRE(step.what == event_step::kind::replay);
  CHECK(step.from == 0);
  CHECK(f.source.replay_ended().what == event_step::kind::go_on);
  f.source.received(40, {.events = {stored({1}, std::nullopt, 64, 0)}});
  CHECK(f.held(64).pages == 1);
}

TEST_CASE("hostile events are counted and change nothing") {
  auto too_many = stored({}, std::nullopt, 64, 0);
  too_many.hashes.resize(k_event_hashes_max + 1);
  auto wrong_count = stored({1, 2}, std::nullopt, 64, 0);
  wrong_count.tokens.pop_back();
  auto no_block = stored({1}, std::nullopt, 64, 0);
  no_block.block_tokens = 0;
  auto two_prompts = stored({1}, std::nullopt, 64, 500);
  const struct {
    const char* name;
    kv_event event;
    std::uint64_t event_counters::*counter;
  } k_cases[] = {
      {"too many hashes", too_many, &event_counters::malformed},
      {"tokens do not match", wrong_count, &event_counters::malformed},
      {"no block size", no_block, &event_counters::malformed},
      {"no hashes", stored({}, std::nullopt, 64, 0), &event_counters::malformed},
      {"one hash, two prompts", two_prompts, &event_counters::malformed},
      {"another block size", stored({9}, 1, 32, 64), &event_counters::malformed},
      {"itself as parent", stored({9}, 9, 64, 64), &event_counters::unknown_parent},
      {"unknown tokens", kv_stored{.hashes = {77}}, &event_counters::unplaced},
      {"unknown removal", removed({77}), &event_counters::unknown_removed},
  };
  for (const auto& c : k_cases) {
    INFO(c.name);
    fixture f;
    f.send(stored({1}, std::nullopt, 64, 0));
    const auto before = f.source.counters().*c.counter;
    kv_batch batch;
    batch.events.push_back(c.event);
    f.source.received(f.sequence++, batch);
    CHECK(f.source.counters().*c.counter == before + 1);
    CHECK(f.held(640).pages == 1);
  }
}

}  // namespace
}  // namespace weir::prefix_index
