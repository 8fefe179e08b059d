// The mock's replica and the gateway's subscriber on real sockets: whatever the replica drops, the
// subscriber's view becomes its cache.
#include "loadtest/mock/kv_publisher.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <random>
#include <set>

#include "gateway/kv_events/subscriber.hpp"
#include "loadtest/mock/prompt_tokens.hpp"
#include "loadtest/mock/replica.hpp"

namespace weir::loadtest::mock {
namespace {

namespace index = prefix_index;
using step = index::event_step;

// What a subscriber holds to be true of a replica: applies batches in order, asks for what is missing.
class mirror final : public gateway::kv_events::stream_sink {
 public:
  step reconnected() override { return ask(); }
  step received(std::uint64_t sequence, const index::kv_batch& batch) override {
    if (sequence < next_) return {};
    waiting_.emplace(sequence, batch);
    return is_asking_ ? step{} : apply_waiting();
  }
  step replayed(std::uint64_t sequence, const index::kv_batch& batch) override {
    if (sequence >= next_) waiting_.emplace(sequence, batch);
    return {};
  }
  step replay_ended() override {
    is_asking_ = false;
    return apply_waiting();
  }
  void reset() override {}
  std::string_view refusal() const override { return {}; }

  bool holds(std::int32_t group, index::engine_hash hash) {
    const std::lock_guard lock(mutex_);
    return held_.contains({group, hash});
  }
  std::uint64_t next() {
    const std::lock_guard lock(mutex_);
    return next_;
  }

 private:
  step ask() {
    is_asking_ = true;
    return {step::kind::replay, next_};
  }
  step apply_waiting() {
    const std::lock_guard lock(mutex_);
    for (auto at = waiting_.begin(); at != waiting_.end() && at->first == next_;
         at = waiting_.erase(at), ++next_)
      for (const auto& event : at->second.events) apply(event);
    return waiting_.empty() ? step{} : ask();
  }
  void apply(const index::kv_event& event) {
    if (const auto* stored = std::get_if<index::kv_stored>(&event)) {
      for (const auto hash : stored->hashes) held_.emplace(stored->group_index, hash);
    } else if (const auto* removed = std::get_if<index::kv_removed>(&event)) {
      for (const auto hash : removed->hashes)
        CHECK(held_.erase({removed->group_index.value_or(0), hash}) == 1);
    } else {
      held_.clear();
    }
  }

  bool is_asking_ = false;
  std::map<std::uint64_t, index::kv_batch> waiting_;
  std::mutex mutex_;
  std::set<std::pair<std::int32_t, index::engine_hash>> held_;
  std::uint64_t next_ = 0;
};

// Branches of a tree, so that prompts share and part.
std::vector<std::int32_t> draw_tokens(std::mt19937_64& random) {
  std::vector<std::int32_t> out;
  for (auto blocks = 1 + random() % 8; blocks > 0; --blocks)
    out.insert(out.end(), 4, static_cast<std::int32_t>(random() % 4 == 0));
  out.push_back(7);
  return out;
}

TEST_CASE("a subscriber's view becomes the replica's cache, whatever is dropped") {
  const auto form = GENERATE(kv_form::vllm_map, kv_form::vllm_array, kv_form::sglang);
  constexpr std::uint64_t k_seed = 11;
  INFO("form " << static_cast<int>(form) << ", seed " << k_seed);
  replica_options options;
  options.cache = {.capacity_tokens = 150, .page_tokens = 4, .checkpoint_tokens = 15};
  options.form = form;
  options.events = {
      .endpoint = "tcp://127.0.0.1:*", .replay_endpoint = "tcp://127.0.0.1:*", .drop_share = 0.3};
  replica behind(options);
  const auto view = std::make_shared<mirror>();
  gateway::kv_events::subscriber all({}, {.replay_spacing = std::chrono::milliseconds(1)});
  const auto source = all.add({.name = "replica",
                               .endpoint = behind.publisher()->endpoint(),
                               .replay_endpoint = behind.publisher()->replay_endpoint()},
                              view);
  REQUIRE(source);
  std::mt19937_64 random(k_seed);
  truth::replica_cache expected(options.cache);
  std::set<truth::block_id> ids;
  const auto send = [&](const std::vector<std::int32_t>& tokens) {
    const auto place = behind.submit({tokens, "", {}}, [](const replica::prefill&) {});
    behind.prefilled(place.number());
    const auto chain = block_chain(tokens, 4, "");
    expected.store(chain, expected.match(chain));
    ids.insert(chain.begin(), chain.end());
  };
  for (int n = 0; n < 300; ++n) send(draw_tokens(random));
  behind.clear_cache();
  expected.clear();
  for (int n = 0; n < 300; ++n) send(draw_tokens(random));

  // The last batches may have been dropped: more come until the view has caught up.
  const auto is_same = [&] {
    const std::int32_t page_group = form == kv_form::sglang ? 0 : 3;
    for (const auto id : ids) {
      if (view->holds(page_group, id) != expected.holds(id, truth::part::page)) return false;
      for (std::int32_t g = 0; g < 3 && form != kv_form::sglang; ++g)
        if (view->holds(g, id) != expected.holds(id, truth::part::checkpoint)) return false;
    }
    return true;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!is_same()) {
    REQUIRE(std::chrono::steady_clock::now() < end);
    send(draw_tokens(random));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(source->status->replays >= 1);
  CHECK(source->status->undecodable == 0);
  CHECK(source->status->misframed == 0);
  CHECK(view->next() > 300);
}

}  // namespace
}  // namespace weir::loadtest::mock
