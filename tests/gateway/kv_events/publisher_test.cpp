#include "gateway/kv_events/publisher.hpp"

#include <random>
#include <unordered_map>

#include "gateway/kv_events/batch_writer.hpp"
#include "gateway/kv_events/decoder.hpp"
#include "gateway/kv_events/engine_events.hpp"
#include "tests/gateway/kv_events/fake_replica.hpp"

namespace weir::gateway::kv_events {
namespace {

using namespace testing;
using engine::cache::cache_event;

constexpr std::int32_t k_unit = 4;

std::vector<std::int32_t> tokens_from(std::int32_t first) {
  return {first, first + 1, first + 2, first + 300'000};
}

// The block that ends at `position`, in a chain whose hashes count from `chain`.
cache_event stored(std::uint64_t chain, std::int32_t position, const std::string& scope,
                   cache_event::group of = cache_event::group::mla_pages) {
  const auto place = static_cast<std::uint64_t>(position / k_unit);
  return {.what = cache_event::kind::stored,
          .of = of,
          .hash = chain + place,
          .parent_hash = chain + place - 1,
          .position = position,
          .scope = scope,
          .tokens = tokens_from(position)};
}

cache_event removed(std::uint64_t hash, cache_event::group of = cache_event::group::mla_pages) {
  return {.what = cache_event::kind::removed, .of = of, .hash = hash, .parent_hash = 0, .position = k_unit};
}

index::kv_batch decoded(const std::string& payload) {
  const auto out = decode_batch(std::as_bytes(std::span(payload)));
  INFO((out ? std::string() : out.error()));
  REQUIRE(out);
  CHECK(out->skipped.total() == 0);
  return out->batch;
}

TEST_CASE("blocks of one chain are one event, with the salt where the prompt starts") {
  const auto wide = std::uint64_t{0xfedcba9876543200};
  const std::vector<cache_event> told = {stored(wide, 4, "salt"), stored(wide, 8, "salt"),
                                         stored(wide, 8, "salt", cache_event::group::kda_checkpoint)};
  const auto batch = decoded(write_batch(told, 12.5));
  CHECK(batch.time_s == 12.5);
  CHECK(batch.data_parallel_rank == 0);
  REQUIRE(batch.events.size() == 2);
  const auto& pages = std::get<index::kv_stored>(batch.events[0]);
  CHECK(pages.group == index::kv_group::pages);
  CHECK(pages.group_index == 0);
  CHECK(pages.hashes == std::vector<index::engine_hash>{wide + 1, wide + 2});
  CHECK_FALSE(pages.parent);
  CHECK(pages.tokens == std::vector<std::int32_t>{4, 5, 6, 300'004, 8, 9, 10, 300'008});
  CHECK(pages.block_tokens == k_unit);
  CHECK(pages.cache_salt == "salt");
  CHECK(pages.medium == index::kv_medium::device);
  const auto& state = std::get<index::kv_stored>(batch.events[1]);
  CHECK(state.group == index::kv_group::checkpoint);
  CHECK(state.group_index == 1);
  CHECK(state.hashes == std::vector<index::engine_hash>{wide + 2});
  CHECK(state.parent == wide + 1);
  CHECK(state.tokens == tokens_from(8));
}

TEST_CASE("what was dropped names its group, and a cleared cache is told as such") {
  const std::vector<cache_event> told = {removed(7), removed(8),
                                         removed(8, cache_event::group::kda_checkpoint)};
  const auto batch = decoded(write_batch(told, 1));
  REQUIRE(batch.events.size() == 2);
  const auto& pages = std::get<index::kv_removed>(batch.events[0]);
  CHECK(pages.hashes == std::vector<index::engine_hash>{7, 8});
  CHECK(pages.group_index == 0);
  const auto& state = std::get<index::kv_removed>(batch.events[1]);
  CHECK(state.hashes == std::vector<index::engine_hash>{8});
  CHECK(state.group_index == 1);
  const auto cleared = decoded(write_cleared_batch(2));
  REQUIRE(cleared.events.size() == 1);
  CHECK(std::holds_alternative<index::kv_cleared>(cleared.events[0]));
}

// An event of the wire as those of blocks that it stands for: {group, hash, parent, tokens, salt, dropped}.
using told_block =
    std::tuple<std::int32_t, std::uint64_t, std::uint64_t, std::vector<std::int32_t>, std::string, bool>;

std::vector<told_block> blocks_of(const index::kv_batch& batch) {
  std::vector<told_block> out;
  for (const auto& event : batch.events) {
    if (const auto* gone = std::get_if<index::kv_removed>(&event)) {
      for (const auto hash : gone->hashes)
        out.emplace_back(*gone->group_index, hash, 0, std::vector<std::int32_t>(), "", true);
      continue;
    }
    const auto& came = std::get<index::kv_stored>(event);
    for (std::size_t i = 0; i < came.hashes.size(); ++i) {
      const auto first = came.tokens.begin() + static_cast<std::ptrdiff_t>(i * came.block_tokens);
      out.emplace_back(came.group_index, came.hashes[i], i > 0 ? came.hashes[i - 1] : came.parent.value_or(0),
                       std::vector<std::int32_t>(first, first + came.block_tokens),
                       i == 0 && !came.parent ? came.cache_salt : "", false);
    }
  }
  return out;
}

TEST_CASE("whatever the cache tells comes out of our own decoder, block for block") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<cache_event> told;
    std::vector<told_block> expected;
    const auto count = 1 + random() % 40;
    const std::string scope = random() % 3 == 0 ? "" : std::string(1 + random() % 256, 'x');
    std::int32_t position = 0;
    std::uint64_t chain = random();
    while (told.size() < count) {
      if (random() % 4 == 0) std::tie(position, chain) = std::pair(0, random());
      position += k_unit;
      const auto of = random() % 5 == 0 ? cache_event::group::kda_checkpoint : cache_event::group::mla_pages;
      const auto e = random() % 6 == 0 ? removed(random(), of) : stored(chain, position, scope, of);
      told.push_back(e);
      const bool gone = e.what == cache_event::kind::removed;
      const bool first = !gone && position == k_unit;
      expected.emplace_back(of == cache_event::group::mla_pages ? 0 : 1, e.hash,
                            gone || first ? 0 : e.parent_hash, e.tokens, first ? scope : "", gone);
    }
    CHECK(blocks_of(decoded(write_batch(told, 1))) == expected);
    CHECK(blocks_of(to_batch(told)) == expected);  // and without a wire
  }
}

// Writes down the blocks that it is told of.
class listener final : public stream_sink {
 public:
  index::event_step reconnected() override { return {index::event_step::kind::replay, 0}; }
  index::event_step received(std::uint64_t sequence, const index::kv_batch& batch) override {
    add(sequence, batch);
    return {};
  }
  index::event_step replayed(std::uint64_t sequence, const index::kv_batch& batch) override {
    add(sequence, batch);
    return {};
  }
  index::event_step replay_ended() override {
    ends_ += 1;
    return {};
  }
  void reset() override {}
  std::string_view refusal() const override { return {}; }

  int ends() const { return ends_; }
  // "3:cleared 4:17,18": what each batch said.
  std::string text() {
    const std::lock_guard lock(mutex_);
    std::string out;
    for (const auto& [sequence, said] : batches_)
      out += fmt::format("{}{}:{}", out.empty() ? "" : " ", sequence, said);
    return out;
  }

 private:
  void add(std::uint64_t sequence, const index::kv_batch& batch) {
    std::string said;
    for (const auto& event : batch.events) {
      if (std::holds_alternative<index::kv_cleared>(event)) said += "cleared";
      if (const auto* gone = std::get_if<index::kv_removed>(&event)) {
        for (const auto hash : gone->hashes) said += fmt::format("{}{}", said.empty() ? "" : ",", hash);
      }
    }
    const std::lock_guard lock(mutex_);
    batches_[sequence] = said;
  }

  std::atomic<int> ends_{0};
  std::mutex mutex_;
  std::map<std::uint64_t, std::string> batches_;
};

TEST_CASE("the index of the same process hears of what happens from when it follows on") {
  engine_events events;
  events.told({removed(1)});
  const auto first = std::make_shared<listener>();
  const auto second = std::make_shared<listener>();
  events.follow(first);
  events.told({removed(2), removed(3)});
  events.told({removed(4)});
  events.follow(second);
  events.told({removed(5)});
  events.follow(nullptr);
  events.told({removed(6)});
  CHECK(first->text() == "0:2,3 1:4");
  CHECK(second->text() == "0:5");
  CHECK_FALSE(events.is_refused());
}

struct pair_of {
  std::shared_ptr<kv_events::publisher> from;
  std::shared_ptr<listener> to = std::make_shared<listener>();
  subscriber watch{{}, {}};

  explicit pair_of(publisher_options options) {
    options.first_sequence = 0;
    options.endpoint = options.replay_endpoint = "tcp://127.0.0.1:*";
    auto opened = kv_events::publisher::open(options);
    REQUIRE(opened);
    from = std::move(*opened);
  }
  void listen() {
    REQUIRE(watch.add(
        {.name = "replica", .endpoint = from->endpoint(), .replay_endpoint = from->replay_endpoint()}, to));
  }
  // Publishes one batch after another, however fast the thread is.
  void publish(std::uint64_t hash) {
    const auto before = from->counters().batches;
    from->publish({removed(hash)});
    REQUIRE(becomes([&] { return from->counters().batches > before; }));
  }
};

TEST_CASE("who comes late gets what was told before, then what is told") {
  pair_of both({});
  both.publish(17);
  both.publish(18);
  both.listen();
  REQUIRE(becomes([&] { return both.to->ends() == 1; }));
  CHECK(both.to->text() == "0:cleared 1:17 2:18");
  both.publish(19);
  CHECK(becomes([&] { return both.to->text() == "0:cleared 1:17 2:18 3:19"; }));
  CHECK(both.from->counters().replays == 1);
  CHECK(both.from->counters().dropped == 0);
}

TEST_CASE("a replay has the last batches alone") {
  pair_of both({.kept_batches_max = 2});
  for (std::uint64_t hash = 1; hash <= 5; ++hash) both.publish(hash);
  both.listen();
  REQUIRE(becomes([&] { return both.to->ends() == 1; }));
  CHECK(both.to->text() == "4:4 5:5");
}

TEST_CASE("more than may wait takes back all that was told") {
  pair_of both({.waiting_events_max = 2});
  both.publish(1);
  const auto before = both.from->counters().batches;
  both.from->publish({removed(2), removed(3), removed(4)});
  REQUIRE(becomes([&] { return both.from->counters().batches > before; }));
  both.publish(5);
  both.listen();
  REQUIRE(becomes([&] { return both.to->ends() == 1; }));
  CHECK(both.to->text() == "0:cleared 1:1 2:cleared 3:5");
  CHECK(both.from->counters().dropped == 3);
}

TEST_CASE("a step of many events goes out in batches of a bounded size") {
  pair_of both({});
  std::vector<cache_event> many;
  for (std::uint64_t hash = 0; hash < 2 * k_written_events_max + 1; ++hash) many.push_back(removed(hash));
  both.from->publish(many);
  CHECK(becomes([&] { return both.from->counters().batches == 1 + 3; }));
  many.resize(3);
  for (auto& e : many) e.tokens.resize(k_written_tokens_max);
  CHECK(batch_size(many) == 1);
  many.front().tokens.resize(k_written_tokens_max + 1);
  CHECK(batch_size(many) == 1);
  CHECK(batch_size({}) == 0);
  many[1].tokens.clear();
  many.front().tokens.resize(1);
  CHECK(batch_size(many) == 2);
}

TEST_CASE("whoever followed an earlier process learns that it is gone, though nothing is told since") {
  index::residency_index residency({.bytes_max = 1 << 20, .seed = 1});
  auto source = std::make_unique<index::event_source>(
      residency, 0, index::event_source_options{},
      [](auto, auto) -> std::optional<index::block_key> { return std::nullopt; });
  const auto sink = std::make_shared<index_sink>(std::move(source));
  auto before = kv_events::publisher::open({"tcp://127.0.0.1:*", "tcp://127.0.0.1:*"});
  REQUIRE(before);
  const publisher_options same{(*before)->endpoint(), (*before)->replay_endpoint()};
  (*before)->publish({removed(1)});
  REQUIRE(becomes([&] { return (*before)->counters().batches == 2; }));
  {
    subscriber watch({}, {});
    const auto added = watch.add(
        {.name = "replica", .endpoint = same.endpoint, .replay_endpoint = same.replay_endpoint}, sink);
    REQUIRE(added);
    REQUIRE(becomes([&] { return added->status->replayed == 2; }));
    before->reset();
    std::expected<std::shared_ptr<kv_events::publisher>, std::string> after;
    REQUIRE(becomes([&] { return (after = kv_events::publisher::open(same)).has_value(); }));
    CHECK(becomes([&] { return added->status->replayed == 3; }));
    CHECK((*after)->counters().batches == 1);
  }
  CHECK(sink->source().counters().cleared == 3);  // as each process begins, and for the gap between them
}

TEST_CASE("an endpoint that is taken is refused in a sentence") {
  pair_of both({});
  const auto second = kv_events::publisher::open({.endpoint = both.from->endpoint(), .replay_endpoint = ""});
  REQUIRE_FALSE(second);
  CHECK_THAT(second.error(), Catch::Matchers::Contains("KV events cannot be published at tcp://127.0.0.1:"));
}

}  // namespace
}  // namespace weir::gateway::kv_events
