#include "policy/router.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <string_view>
#include <vector>

namespace weir::policy {
namespace {

constexpr std::int64_t k_int64_max = std::numeric_limits<std::int64_t>::max();

target_view ready_target(std::string_view name) {
  return {.name = name, .context_tokens = 8192, .ready = true};
}

// Each row changes one thing about a request or target that would otherwise be eligible.
struct eligibility_case {
  const char* name;
  request_facts facts;
  target_view target;
  verdict expected;
};

const eligibility_case k_cases[] = {
    {"plain request", {}, ready_target("a"), verdict::eligible},
    {"target not ready", {}, {.name = "a", .context_tokens = 8192, .ready = false}, verdict::not_ready},
    {"an endpoint that it does not speak",
     {.asks = endpoint::embeddings, .needs_image = true},
     ready_target("a"),
     verdict::no_endpoint},
    {"an endpoint that it speaks",
     {.asks = endpoint::responses},
     {.name = "a", .context_tokens = 8192, .ready = true, .endpoints = set_of(endpoint::responses)},
     verdict::eligible},
    {"image without vision", {.needs_image = true}, ready_target("a"), verdict::no_images},
    {"image with vision",
     {.needs_image = true},
     {.name = "a", .context_tokens = 8192, .ready = true, .takes_images = true},
     verdict::eligible},
    {"schema without constrained decoding",
     {.needs_structured_output = true},
     ready_target("a"),
     verdict::no_structured_output},
    {"forced tool without constrained decoding",
     {.needs_forced_tool = true},
     ready_target("a"),
     verdict::no_forced_tools},
    {"fills the context exactly",
     {.prompt_tokens = 8191, .output_tokens_min = 1},
     ready_target("a"),
     verdict::eligible},
    {"one token too many",
     {.prompt_tokens = 8192, .output_tokens_min = 1},
     ready_target("a"),
     verdict::context_too_small},
    {"output alone too long", {.output_tokens_min = 8193}, ready_target("a"), verdict::context_too_small},
    {"counts at the edge of their type",
     {.prompt_tokens = k_int64_max, .output_tokens_min = k_int64_max},
     ready_target("a"),
     verdict::context_too_small},
};

TEST_CASE("eligibility names the first reason") {
  for (const auto& c : k_cases) {
    INFO(c.name);
    CHECK(to_text(check_eligibility(c.facts, c.target)) == to_text(c.expected));
  }
}

decision route_in_turn(const request_facts& facts, const std::vector<target_view>& targets,
                       std::uint64_t turn) {
  return route(facts, targets, {}, {.kind = policy_kind::round_robin}, {}, turn);
}

TEST_CASE("round robin visits every eligible target once per turn of the wheel") {
  auto broken = ready_target("b");
  broken.ready = false;
  const std::vector targets{ready_target("a"), broken, ready_target("c"), ready_target("d")};
  std::vector<std::size_t> picked;
  for (std::uint64_t turn = 0; turn < 6; ++turn) picked.push_back(route_in_turn({}, targets, turn).picked);
  CHECK(picked == std::vector<std::size_t>{0, 2, 3, 0, 2, 3});
}

TEST_CASE("a decision explains every candidate") {
  auto broken = ready_target("b");
  broken.ready = false;
  const std::vector targets{ready_target("a"), broken, ready_target("c")};
  const auto d = route_in_turn({}, targets, 1);
  REQUIRE(d.candidates.size() == 3);
  CHECK(d.picked == 2);
  CHECK(d.candidates[0].why == verdict::eligible);
  CHECK(d.candidates[1].why == verdict::not_ready);
  CHECK(d.candidates[2].why == verdict::chosen);
}

TEST_CASE("no eligible target is a decision too") {
  const auto d = route_in_turn({.needs_image = true}, {ready_target("a")}, 0);
  CHECK(d.picked == decision::k_none);
  REQUIRE(d.candidates.size() == 1);
  CHECK(d.candidates[0].why == verdict::no_images);
  CHECK(route_in_turn({}, {}, 0).picked == decision::k_none);
}

// Two replicas that differ in one thing; the first must win by each policy named.
struct preference_case {
  const char* name;
  policy_kind kind;
  prefix_view first, second;
  double first_pending, second_pending;
};

const preference_case k_preferences[] = {
    {"balanced: reuse beats an equal queue", policy_kind::balanced, {8000, 8000}, {}, 0, 0},
    {"balanced: a long queue beats little reuse", policy_kind::balanced, {}, {512, 512}, 0, 50'000},
    {"balanced: pages without a checkpoint are worth little, but something",
     policy_kind::balanced,
     {8000, 0},
     {},
     0,
     0},
    {"balanced: what can be resumed beats pages that cannot",
     policy_kind::balanced,
     {4000, 4000},
     {8000, 0},
     0,
     0},
    {"latency: the sooner first token", policy_kind::latency, {4000, 4000}, {}, 1000, 0},
    {"cost: half a token of waiting counts one of work", policy_kind::cost, {1000, 1000}, {}, 1900, 0},
    {"least pending: reuse does not count", policy_kind::least_pending, {}, {9000, 9000}, 10, 11},
    {"prefix greedy: waiting does not count", policy_kind::prefix_greedy, {64, 64}, {}, 1e9, 0},
};

TEST_CASE("each policy prefers what it is named for") {
  for (const auto& c : k_preferences) {
    INFO(c.name);
    std::vector targets{ready_target("first"), ready_target("second")};
    for (auto& t : targets) {
      t.context_tokens = 0;
      t.speed.prefill_tokens_per_s = 10'000;
      t.price.usd_per_s = 0.01;
    }
    targets[0].load.pending_prefill_tokens = c.first_pending;
    targets[1].load.pending_prefill_tokens = c.second_pending;
    for (std::uint64_t seed = 0; seed < 16; ++seed) {
      const std::vector prefixes{c.first, c.second};
      CHECK(route({.prompt_tokens = 10'000}, targets, prefixes, {.kind = c.kind}, {}, seed).picked == 0);
    }
  }
}

TEST_CASE("equal targets are picked about equally often") {
  const std::vector targets{ready_target("a"), ready_target("b"), ready_target("c"), ready_target("d")};
  std::vector<int> count(4);
  for (std::uint64_t seed = 0; seed < 4000; ++seed) ++count[route({}, targets, {}, {}, {}, seed).picked];
  for (const int n : count) {
    CHECK(n > 850);
    CHECK(n < 1150);
  }
}

TEST_CASE("overflow: replicas first, then the engine, then a hosted target, then late") {
  auto replica = ready_target("replica");
  auto engine = ready_target("engine");
  engine.kind = target_kind::engine;
  auto hosted = ready_target("hosted");
  hosted.kind = target_kind::hosted;
  for (auto* t : {&replica, &engine, &hosted}) t->speed = {.prefill_tokens_per_s = 1000, .spread = 0.3};
  const request_facts facts{.prompt_tokens = 1000};
  const scoring how{.contract = {.ttft_s = 3}};
  const auto pick = [&](const request_facts& f, const overflow_terms& o) {
    const std::vector targets{replica, engine, hosted};
    const auto d = route(f, targets, {}, how, o, 1);
    return d.picked == decision::k_none ? std::string_view("none") : d.candidates[d.picked].name;
  };
  CHECK(pick(facts, {}) == "replica");
  replica.load.pending_prefill_tokens = 60'000;
  CHECK(pick(facts, {}) == "engine");
  CHECK(pick(facts, {.engine = false}) == "hosted");
  auto local = facts;
  local.local_only = true;
  CHECK(pick(local, {.engine = false}) == "replica");
  CHECK(pick(facts, {.engine = false, .hosted = false}) == "replica");
  replica.ready = false;
  engine.full = true;
  CHECK(pick(local, {}) == "none");
}

TEST_CASE("a hosted target competes by price only where it is told to") {
  auto replica = ready_target("replica");
  replica.speed.prefill_tokens_per_s = 1000;
  replica.price.usd_per_s = 1;
  auto hosted = ready_target("hosted");
  hosted.kind = target_kind::hosted;
  hosted.speed.prefill_tokens_per_s = 1000;
  hosted.price.fresh_usd_per_token = 1e-6;
  const std::vector targets{replica, hosted};
  const request_facts facts{.prompt_tokens = 1000};
  CHECK(route(facts, targets, {}, {}, {}, 1).picked == 0);
  CHECK(route(facts, targets, {}, {}, {.hosted_by_score = true}, 1).picked == 1);
}

TEST_CASE("a request dearer than its ceiling goes nowhere, and says so") {
  auto target = ready_target("a");
  target.speed.prefill_tokens_per_s = 1000;
  target.price.usd_per_s = 1;
  const auto d = route({.prompt_tokens = 2000}, std::vector{target}, {}, {.cost_max_usd = 1}, {}, 1);
  CHECK(d.picked == decision::k_none);
  CHECK(d.candidates[0].why == verdict::too_expensive);
  CHECK(d.candidates[0].cost_usd == Approx(2));
}

// A session stays where it was while that costs about the same, and only then.
struct session_case {
  const char* name;
  double other_pending_tokens;
  double session_pending_tokens;
  bool session_ready;
  std::size_t expected;
};

const session_case k_session_cases[] = {
    {"equal targets", 0, 0, true, 1},
    {"a little busier", 20'000, 20'100, true, 1},
    {"much busier", 0, 20'000, true, 0},
    {"not ready", 0, 0, false, 0},
};

TEST_CASE("a session's target informs the choice and never overrides it") {
  for (const auto& c : k_session_cases) {
    for (std::uint64_t seed = 0; seed < 32; ++seed) {
      INFO(c.name << ", seed " << seed);
      target_view targets[] = {ready_target("a"), ready_target("b")};
      targets[0].load.pending_prefill_tokens = c.other_pending_tokens;
      targets[1].load.pending_prefill_tokens = c.session_pending_tokens;
      targets[1].ready = c.session_ready;
      const request_facts facts{.prompt_tokens = 1000, .session_target = 1};
      CHECK(route(facts, targets, {}, {}, {}, seed).picked == c.expected);
    }
  }
}

}  // namespace
}  // namespace weir::policy
