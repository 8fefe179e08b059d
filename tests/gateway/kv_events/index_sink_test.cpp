// From a replica's cache over real sockets into the index: what the index says of a prompt becomes what the
// replica would reuse, whatever the form of its events and whatever is dropped on the way.
#include <catch2/catch.hpp>
#include <chrono>
#include <random>
#include <thread>

#include "gateway/kv_events/subscriber.hpp"
#include "loadtest/mock/kv_publisher.hpp"
#include "loadtest/mock/prompt_tokens.hpp"
#include "loadtest/mock/replica.hpp"

namespace weir::gateway::kv_events {
namespace {

namespace index = prefix_index;
namespace mock = loadtest::mock;
namespace truth = loadtest::truth;

constexpr std::size_t k_unit = 8;
constexpr std::array<std::byte, 16> k_salt{std::byte{7}};

index::block_key root_of(std::string_view scope) {
  return index::root_key({.salt = k_salt, .model = "m", .adapter = {}, .scope = scope});
}

struct prompt {
  std::vector<std::int32_t> tokens;
  std::string salt;
};

// Branches of a tree, so that prompts share and part; two scopes have the same prompts.
prompt draw_prompt(std::mt19937_64& random) {
  prompt out;
  for (auto units = 1 + random() % 8; units > 0; --units)
    out.tokens.insert(out.tokens.end(), k_unit, static_cast<std::int32_t>(random() % 4 == 0));
  out.tokens.push_back(7);
  out.salt = random() % 2 == 0 ? "a" : "b";
  return out;
}

// A replica, what it holds told apart from it, and the index that listens to it.
class rig {
 public:
  explicit rig(const mock::replica_options& options, std::size_t seed)
      : options_(options), behind_(options), expected_(options.cache), random_(seed) {
    auto source = std::make_unique<index::event_source>(
        index_, 3,
        index::event_source_options{.unit_tokens = k_unit, .has_checkpoints = !options.cache.dense},
        [](std::string_view adapter, std::string_view salt) -> std::optional<index::block_key> {
          if (!adapter.empty() || salt.empty()) return std::nullopt;
          return root_of(salt);
        });
    const auto added = all_.add({.name = "replica",
                                 .endpoint = behind_.publisher()->endpoint(),
                                 .replay_endpoint = behind_.publisher()->replay_endpoint()},
                                std::make_shared<index_sink>(std::move(source)));
    REQUIRE(added);
    status = added->status;
  }

  void send() {
    const auto asked = draw_prompt(random_);
    const auto place = behind_.submit({asked.tokens, asked.salt, {}}, [](const mock::replica::prefill&) {});
    behind_.prefilled(place.number());
    const auto chain = chain_of(asked);
    expected_.store(chain, expected_.match(chain));
  }

  void clear() {
    behind_.clear_cache();
    expected_.clear();
  }

  // Of 200 other prompts, those of which the index says something else than the replica would do; `reused`,
  // where given, gets how many units they share with the cache.
  std::size_t differences(std::size_t* reused = nullptr) {
    std::mt19937_64 other(99);
    std::size_t out = 0;
    for (int n = 0; n < 200; ++n) {
      const auto asked = draw_prompt(other);
      const auto match = expected_.match(chain_of(asked));
      const auto per_unit = k_unit / static_cast<std::size_t>(options_.cache.page_tokens);
      const auto keys = index::chain_keys(root_of(asked.salt), asked.tokens, k_unit);
      const index::replica_id replica = 3;
      index::holding held;
      index_.find(keys, {&replica, 1}, {&held, 1});
      const auto usable = options_.cache.dense ? held.pages : held.checkpoint;
      if (held.pages != match.pages / per_unit || usable != match.reusable / per_unit) ++out;
      if (reused != nullptr) *reused += match.reusable;
    }
    return out;
  }

  std::shared_ptr<const source_status> status;

 private:
  std::vector<truth::block_id> chain_of(const prompt& asked) const {
    return mock::block_chain(asked.tokens, static_cast<std::size_t>(options_.cache.page_tokens), asked.salt);
  }

  mock::replica_options options_;
  mock::replica behind_;
  truth::replica_cache expected_;
  index::residency_index index_;
  std::mt19937_64 random_;
  subscriber all_{{},
                  {.replay_spacing = std::chrono::milliseconds(1)}};  // stops before what its sinks write to
};

void check_convergence(const mock::replica_options& options, std::size_t seed) {
  rig all(options, seed);
  for (int n = 0; n < 300; ++n) all.send();
  all.clear();
  for (int n = 0; n < 300; ++n) all.send();
  // The last batches may have been dropped: more come until the index has caught up.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (all.differences() > 0 && std::chrono::steady_clock::now() < end) {
    all.send();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::size_t reused = 0;
  CHECK(all.differences(&reused) == 0);
  CHECK(reused > 20);
  CHECK(all.status->undecodable == 0);
  CHECK(all.status->misframed == 0);
  CHECK_FALSE(all.status->is_refused);
}

TEST_CASE("the index of a hybrid replica becomes its cache") {
  const auto form = GENERATE(mock::kv_form::vllm_map, mock::kv_form::vllm_array);
  const auto retention = GENERATE(truth::eviction_order::lru, truth::eviction_order::value);
  const auto drop = GENERATE(0.0, 0.1);
  constexpr std::size_t k_seed = 21;
  INFO("form " << static_cast<int>(form) << ", retention " << static_cast<int>(retention) << ", dropped "
               << drop << ", seed " << k_seed);
  mock::replica_options options;
  options.cache = {
      .capacity_tokens = 700, .page_tokens = k_unit, .checkpoint_tokens = 25, .eviction = retention};
  options.form = form;
  options.events = {
      .endpoint = "tcp://127.0.0.1:*", .replay_endpoint = "tcp://127.0.0.1:*", .drop_share = drop};
  check_convergence(options, k_seed);
}

TEST_CASE("the index of an attention-only replica becomes its cache, also of smaller blocks") {
  const auto form = GENERATE(mock::kv_form::vllm_map, mock::kv_form::sglang);
  const std::int64_t page_tokens = GENERATE(4, 8);
  constexpr std::size_t k_seed = 22;
  INFO("form " << static_cast<int>(form) << ", pages of " << page_tokens << ", seed " << k_seed);
  mock::replica_options options;
  options.cache = {.capacity_tokens = 500, .page_tokens = page_tokens, .dense = true};
  options.form = form;
  options.events = {
      .endpoint = "tcp://127.0.0.1:*", .replay_endpoint = "tcp://127.0.0.1:*", .drop_share = 0.1};
  check_convergence(options, k_seed);
}

}  // namespace
}  // namespace weir::gateway::kv_events
