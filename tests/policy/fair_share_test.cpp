#include "policy/fair_share.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "policy/placement.hpp"

namespace weir::policy {
namespace {

target_view busy_replica() {
  target_view t{.name = "r", .ready = true};
  t.speed.prefill_tokens_per_s = 1'000;
  return t;
}

struct sender {
  std::string name;
  std::int64_t weight = 1;
  int priority = 2;
  std::size_t waiting_always = 50;  // it keeps so many waiting
  std::int64_t tokens = 500;        // of each of its requests
};

// One replica that prefills 1,000 tokens a second, tenants that always want more: what each got in `rounds`.
std::map<std::string, double> serve(const std::vector<sender>& senders, int rounds, std::uint64_t seed) {
  struct request {
    const sender* from;
    std::int64_t tokens;
    double since_s;
  };
  std::mt19937_64 random(seed);
  fair_share fair;
  std::vector<request> waiting;
  std::map<std::string, double> got;
  double now_s = 0;
  for (int round = 0; round < rounds; ++round) {
    for (const auto& s : senders) {
      auto have = std::count_if(waiting.begin(), waiting.end(), [&](const auto& w) { return w.from == &s; });
      for (; have < static_cast<std::ptrdiff_t>(s.waiting_always); ++have) {
        const auto tokens =
            1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(2 * s.tokens));
        waiting.push_back({&s, tokens, now_s});
        fair.arrived({s.name, s.weight, s.priority}, now_s);
      }
    }
    std::vector<waiting_request> asks;
    for (const auto& w : waiting) {
      asks.push_back({.facts = {.prompt_tokens = w.tokens},
                      .waited_s = now_s - w.since_s,
                      .priority = w.from->priority,
                      .class_waited_s = fair.class_waited_s(w.from->priority, now_s),
                      .lead_tokens = fair.lead_tokens(w.from->name)});
    }
    const auto placed = place_next(std::vector{busy_replica()}, asks, {});
    REQUIRE(placed);
    const auto& w = waiting[placed->request];
    got[w.from->name] += static_cast<double>(w.tokens);
    now_s += static_cast<double>(w.tokens) / 1'000;
    fair.served({w.from->name, w.from->weight, w.from->priority}, static_cast<double>(w.tokens), now_s);
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(placed->request));
  }
  return got;
}

TEST_CASE("tenants that want more than there is share it by weight") {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    INFO("seed " << seed);
    const auto got = serve({{"a", 1}, {"b", 1}, {"c", 2}}, 3'000, seed);
    CHECK(got.at("a") / got.at("b") == Approx(1).margin(0.05));
    CHECK(got.at("c") / got.at("b") == Approx(2).margin(0.1));
  }
}

TEST_CASE(
    "a flood of one tenant delays only itself, and neither do long requests get more than their share") {
  const auto got = serve({{.name = "flood", .waiting_always = 400},
                          {.name = "calm", .waiting_always = 3},
                          {.name = "long", .waiting_always = 10, .tokens = 5'000}},
                         3'000, 7);
  CHECK(got.at("flood") / got.at("calm") == Approx(1).margin(0.1));
  CHECK(got.at("long") / got.at("calm") == Approx(1).margin(0.15));
}

TEST_CASE("H10: a low class is served last and never starves") {
  const auto got = serve({{.name = "high", .priority = 3, .waiting_always = 20},
                          {.name = "batch", .priority = 0, .waiting_always = 20}},
                         2'000, 3);
  CHECK(got.at("high") > got.at("batch"));
  // About a request of half a second in each half minute.
  CHECK(got.at("batch") > 0.01 * got.at("high"));
}

TEST_CASE("of two that wait the higher class goes first, until the lower one has waited long enough") {
  waiting_request low{.facts = {.prompt_tokens = 10}, .priority = 0};
  const waiting_request high{.facts = {.prompt_tokens = 5'000}, .priority = 3};
  const std::vector targets{busy_replica()};
  low.class_waited_s = 29;
  CHECK(place_next(targets, std::vector{low, high}, {})->request == 1);
  low.class_waited_s = 41;
  CHECK(place_next(targets, std::vector{low, high}, {})->request == 0);
}

TEST_CASE("nobody saves up while idle, and nobody sheds what it got by leaving") {
  fair_share fair;
  const fair_share::member a{"a"};
  const fair_share::member b{"b"};
  fair.arrived(a, 0);
  for (int i = 0; i < 10; ++i) {
    fair.arrived(a, 0);
    fair.served(a, 1'000, 0);
  }
  fair.arrived(b, 0);  // was idle: begins where a is
  CHECK(fair.lead_tokens("a") == 0);
  CHECK(fair.lead_tokens("b") == 0);
  fair.served(b, 5'000, 0);  // leaves with that
  fair.arrived(b, 0);
  CHECK(fair.lead_tokens("b") == 5'000);
  fair.left(b);
  fair.left(a);
  CHECK(fair.remembered() == 0);
  fair.served({"nobody"}, 1, 0);
  fair.left({"nobody"});
  CHECK(fair.lead_tokens("nobody") == 0);
}

TEST_CASE("a class ages while it waits and gets nothing") {
  fair_share fair;
  const fair_share::member low{"a", 1, 0};
  CHECK(fair.class_waited_s(0, 100) == 0);
  fair.arrived(low, 10);
  fair.arrived(low, 12);
  CHECK(fair.class_waited_s(0, 15) == 5);
  fair.served(low, 1, 15);
  CHECK(fair.class_waited_s(0, 18) == 3);
  fair.left(low);
  CHECK(fair.class_waited_s(0, 100) == 0);
  fair.arrived({"a", 1, 99}, 0);  // beyond the last class: the last
  CHECK(fair.class_waited_s(k_classes - 1, 1) == 1);
}

TEST_CASE("tenants that no longer count are forgotten") {
  fair_share fair;
  fair.arrived({"always"}, 0);
  for (int i = 0; i < 10'000; ++i) {
    const auto name = "t" + std::to_string(i);
    fair.arrived({name}, 0);
    fair.served({name}, 10, 0);
    fair.arrived({"always"}, 0);
    fair.served({"always"}, 20, 0);
  }
  CHECK(fair.remembered() < 10);
}

}  // namespace
}  // namespace weir::policy
