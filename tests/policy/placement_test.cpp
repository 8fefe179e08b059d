#include "policy/placement.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "policy/pending_work.hpp"

namespace weir::policy {
namespace {

std::vector<target_view> replicas(std::size_t count) {
  std::vector<target_view> out(count);
  for (auto& t : out) {
    t.name = "r";
    t.ready = true;
    t.speed.prefill_tokens_per_s = 1000;
  }
  return out;
}

waiting_request request(std::int64_t tokens, double waited_s = 0) {
  return {.facts = {.prompt_tokens = tokens}, .waited_s = waited_s};
}

// Dispatches all that can be dispatched; the order as "request>target".
std::vector<std::string> place_all(std::vector<target_view>& targets, std::vector<waiting_request> waiting,
                                   const placement_terms& terms) {
  std::vector<std::size_t> number(waiting.size());
  for (std::size_t i = 0; i < number.size(); ++i) number[i] = i;
  std::vector<std::string> out;
  while (const auto next = place_next(targets, waiting, terms)) {
    const auto at = static_cast<std::ptrdiff_t>(next->request);
    out.push_back(std::to_string(number[next->request]) + ">" + std::to_string(next->made.picked));
    if (next->made.picked != decision::k_none) {
      targets[next->made.picked].load.pending_prefill_tokens +=
          static_cast<double>(waiting[next->request].facts.prompt_tokens);
    }
    waiting.erase(waiting.begin() + at);
    number.erase(number.begin() + at);
  }
  return out;
}

TEST_CASE("a lone request goes to an idle replica at once") {
  auto targets = replicas(1);
  CHECK(place_all(targets, {request(5000)}, {}) == std::vector<std::string>{"0>0"});
}

TEST_CASE("of a burst the shortest is placed first, and the busy replica gets no more") {
  auto targets = replicas(1);
  CHECK(place_all(targets, {request(5000), request(300), request(2000)}, {}) ==
        std::vector<std::string>{"1>0"});
}

TEST_CASE("a request that waited overtakes shorter ones") {
  auto targets = replicas(1);
  CHECK(place_all(targets, {request(300), request(5000, 6)}, {}) == std::vector<std::string>{"1>0"});
}

TEST_CASE("the longest requests are placed first, each on a replica of its own") {
  auto targets = replicas(2);
  const placement_terms terms{.hold_s = 0.25, .long_tokens = 10'000};
  CHECK(place_all(targets, {request(300), request(20'000)}, terms).front().substr(0, 2) == "1>");
}

TEST_CASE("a request whose choice is busy waits for it while others pass to idle replicas") {
  auto targets = replicas(2);
  targets[0].load.pending_prefill_tokens = 2000;
  const std::vector<prefix_view> here{{8000, 8000}, {}};
  auto cached = request(9000);
  cached.prefixes = here;
  const auto placed = place_all(targets, {cached, request(3000)}, {});
  CHECK(placed == std::vector<std::string>{"1>1"});
}

TEST_CASE("nobody waits longer than the bound, nor for a target of unknown speed") {
  auto targets = replicas(1);
  targets[0].load.pending_prefill_tokens = 1e6;
  CHECK(place_all(targets, {request(100, 31)}, {}).size() == 1);
  CHECK(place_all(targets, {request(100, 29)}, {}).empty());
  targets[0].speed.prefill_tokens_per_s = 0;
  CHECK(place_all(targets, {request(100)}, {}).size() == 1);
}

TEST_CASE("where all that could serve a request are full it waits, unless its policy does not") {
  auto targets = replicas(2);
  targets[0].full = targets[1].full = true;
  CHECK(place_all(targets, {request(100, 29)}, {}).empty());
  auto placed = place_next(targets, std::vector{request(100, 31)}, {});
  REQUIRE(placed);
  CHECK(placed->made.picked == decision::k_none);
  targets[1].full = false;
  CHECK(place_all(targets, {request(100)}, {}) == std::vector<std::string>{"0>1"});
  targets[1].full = true;
  auto r = request(100);
  r.how.kind = policy_kind::latency;
  placed = place_next(targets, std::vector{r}, {});
  REQUIRE(placed);
  CHECK(placed->made.candidates[0].why == verdict::at_capacity);
}

TEST_CASE("nobody waits for a full target that would not be used") {
  auto targets = replicas(2);
  targets[0].set_aside = aside::failing;
  targets[1].kind = target_kind::hosted;
  targets[1].full = true;
  auto r = request(100);
  for (const bool hosted : {false, true}) {
    r.overflow.hosted = hosted;
    CHECK(place_next(targets, std::vector{r}, {}).has_value() == !hosted);
  }
}

TEST_CASE("policies that compare do not wait") {
  for (const auto kind : {policy_kind::latency, policy_kind::cost, policy_kind::least_pending,
                          policy_kind::prefix_greedy, policy_kind::round_robin, policy_kind::random}) {
    auto targets = replicas(1);
    targets[0].load.pending_prefill_tokens = 1e6;
    auto r = request(100);
    r.how.kind = kind;
    CHECK(place_all(targets, {r}, {}).size() == 1);
  }
}

TEST_CASE("a request that no target serves is answered at once, also behind others that wait") {
  auto targets = replicas(1);
  targets[0].load.pending_prefill_tokens = 1e6;
  auto image = request(9000);
  image.facts.needs_image = true;
  const std::vector waiting{request(100), image};
  const auto next = place_next(targets, waiting, {});
  REQUIRE(next);
  CHECK(next->request == 1);
  CHECK(next->made.picked == decision::k_none);
  CHECK(next->made.candidates[0].why == verdict::no_images);
}

TEST_CASE("targets excluded for one request stay open for the others") {
  auto targets = replicas(2);
  const bool excluded[] = {true, false};
  auto r = request(100);
  r.excluded = excluded;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    r.seed = seed;
    const auto next = place_next(targets, std::vector{r}, {});
    REQUIRE(next);
    CHECK(next->made.picked == 1);
    CHECK(next->made.candidates[0].why == verdict::rule);
  }
}

TEST_CASE("pending work shrinks while its head runs, and only by the head") {
  pending_work work;
  const auto a = work.dispatched(1000, 10);
  const auto b = work.dispatched(500, 10.5);
  CHECK(work.tokens(1000, 10.5) == Approx(1000));
  CHECK(work.tokens(1000, 14) == Approx(500));
  work.done(a, 14);
  CHECK(work.tokens(1000, 14.25) == Approx(250));
  work.done(b, 15);
  work.done(b, 15);
  CHECK(work.tokens(1000, 15) == 0);
  CHECK(work.requests() == 0);
}

TEST_CASE("a target of which nothing comes is late, whatever it was given, until something does") {
  pending_work work;
  CHECK(work.overdue_s(1000, 0.1, 5) == 0);
  const auto first = work.dispatched(400, 10);
  work.dispatched(100, 10.5);
  CHECK(work.overdue_s(1000, 0.1, 11) == 0);  // 0.4 s of work and 0.1 s, twice, and 50 ms
  CHECK(work.overdue_s(1000, 0.1, 13) == Approx(1.95));
  CHECK(work.overdue_s(0, 0.1, 13) == 0);
  work.done(first, 13);
  CHECK(work.overdue_s(1000, 0.1, 13.3) == 0);
  CHECK(work.overdue_s(1000, 0.1, 14) == Approx(0.55));
  const auto third = work.dispatched(100, 14);
  work.done(third, 14.1);  // it works, though on others
  CHECK(work.overdue_s(1000, 0.1, 14.2) == 0);
}

TEST_CASE("a request whose first token is not told makes no target late") {
  pending_work work;
  work.dispatched(100, 10, false);
  CHECK(work.overdue_s(1000, 0.1, 60) == 0);
}

TEST_CASE("pending work of requests that end out of order") {
  pending_work work;
  const auto a = work.dispatched(1000, 0);
  const auto b = work.dispatched(500, 0);
  work.done(b, 0.5);
  CHECK(work.tokens(1000, 0.5) == Approx(500));
  work.done(a, 1);
  CHECK(work.tokens(1000, 1) == 0);
}

}  // namespace
}  // namespace weir::policy
