// What surrounds a decision: learnt speed, the chance of a contract, operator rules, checkpoint hints.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "policy/hints.hpp"
#include "policy/rules.hpp"
#include "policy/score.hpp"
#include "policy/speed.hpp"

namespace weir::policy {
namespace {

TEST_CASE("speed is learnt from observations, whatever was configured") {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> work(0, 40'000);
  std::lognormal_distribution<double> noise(0, 0.1);
  for (const double configured : {0.0, 1000.0, 100'000.0}) {
    INFO(configured);
    speed_estimator speed({.prefill_tokens_per_s = configured});
    for (int i = 0; i < 500; ++i) {
      const double w = work(random);
      speed.observe_ttft(w, (0.1 + w / 12'000) * noise(random));
    }
    const auto v = speed.view();
    CHECK(v.prefill_tokens_per_s == Approx(12'000).epsilon(0.1));
    CHECK(v.ttft_base_s == Approx(0.1).margin(0.1));
    CHECK(v.spread < 0.3);
  }
}

TEST_CASE("a speed that nobody configured is unknown until it was seen a few times") {
  speed_estimator speed({});
  for (int i = 0; i < 7; ++i) speed.observe_ttft(1000, 1);
  CHECK(speed.view().prefill_tokens_per_s == 0);
  speed.observe_ttft(1000, 1);
  CHECK(speed.view().prefill_tokens_per_s > 0);
}

TEST_CASE("a replica that slowed down is known to be slower after some fifty answers") {
  speed_estimator speed({.prefill_tokens_per_s = 10'000});
  for (int i = 0; i < 300; ++i) speed.observe_ttft(1000 * (i % 10), 0.05 + 0.1 * (i % 10));
  for (int i = 0; i < 150; ++i) speed.observe_ttft(1000 * (i % 10), 0.05 + 0.4 * (i % 10));
  CHECK(speed.view().prefill_tokens_per_s == Approx(2500).epsilon(0.15));
}

TEST_CASE("nonsense teaches nothing") {
  speed_estimator speed({.prefill_tokens_per_s = 10'000});
  const auto before = speed.view();
  for (const double bad : {-1.0, 0.0, std::nan(""), HUGE_VAL, 1e300}) {
    speed.observe_ttft(1000, bad);
    if (!(bad >= 0)) speed.observe_ttft(bad, 1);
    if (!(bad >= 0) || bad > 1e5) speed.observe_itl(1, bad);
  }
  speed.observe_itl(-1, 0.01);
  CHECK(speed.view().prefill_tokens_per_s == before.prefill_tokens_per_s);
  CHECK(speed.view().itl_base_s == before.itl_base_s);
}

TEST_CASE("inter-token time grows with running sequences") {
  speed_estimator speed({});
  for (int i = 0; i < 500; ++i) speed.observe_itl(i % 50, 0.010 + 0.0005 * (i % 50));
  CHECK(speed.view().itl_base_s == Approx(0.010).epsilon(0.1));
  CHECK(speed.view().itl_per_sequence_s == Approx(0.0005).epsilon(0.1));
}

TEST_CASE("the chance of a contract: half at the prediction, one sigma at 84%, never below the floor") {
  target_view target{.name = "a", .ready = true};
  target.speed = {.prefill_tokens_per_s = 1000, .spread = 0.4};
  const request_facts facts{.prompt_tokens = 2000};
  const auto chance = [&](double ttft_s) {
    return estimate(facts, target, {}, {.contract = {.ttft_s = ttft_s}}).contract_probability;
  };
  CHECK(chance(0) == 1);
  CHECK(chance(2) == Approx(0.5));
  CHECK(chance(2 * std::exp(0.4)) == Approx(0.8413).epsilon(0.001));
  CHECK(chance(0.001) == k_probability_min);
}

TEST_CASE("the score is the expected cost of a result") {
  target_view target{.name = "a", .ready = true};
  target.speed = {.prefill_tokens_per_s = 1000, .itl_base_s = 0.01};
  target.load.pending_prefill_tokens = 500;
  target.price.usd_per_s = 0.02;
  const request_facts facts{.prompt_tokens = 3000, .output_tokens_expected = 100};
  const auto c = estimate(facts, target, {.page_tokens = 2000, .reusable_tokens = 1000},
                          {.value_of_time_usd_per_s = 0.01, .credit_share = 0.1});
  CHECK(c.ttft_s == Approx(2.5));
  CHECK(c.cost_usd == Approx(0.02 * (2 + 100 * 0.01)));
  // price 0.06, 2.5 s of waiting 0.025, a tenth of one second of work at 0.03 back.
  CHECK(c.score == Approx(0.06 + 0.025 - 0.003));
}

struct hint_case {
  const char* name;
  std::int64_t prompt, pages, reusable;
  std::vector<std::int64_t> expected;
};

TEST_CASE("checkpoint hints: the prompt's end and the junction, where they earn something") {
  const hint_case cases[] = {
      {"a new long prompt", 10'000, 0, 0, {9984}},
      {"a new short prompt", 1000, 0, 0, {}},
      {"the last token always runs", 6400, 0, 0, {6336}},
      {"a second sighting", 10'000, 5000, 0, {4992, 9984}},
      {"a junction already resumable", 10'000, 5000, 5000, {9984}},
      {"pages to the end", 10'000, 9984, 4096, {9984}},
      {"all resumable", 10'000, 9984, 9984, {}},
      {"a shallow junction", 10'000, 500, 0, {9984}},
      {"empty", 0, 0, 0, {}},
  };
  for (const auto& c : cases) {
    INFO(c.name);
    const auto hints = hints_for(c.prompt, {.page_tokens = c.pages, .reusable_tokens = c.reusable}, {});
    CHECK(std::vector<std::int64_t>(hints.at, hints.at + hints.count) == c.expected);
  }
}

TEST_CASE("rules: all that match apply in order, exclusions add up, later terms win") {
  const std::vector<rule> rules{
      {.name = "long", .when = {.prompt_tokens_min = 100'000}, .allow = {"big"}, .ttft_s = 30},
      {.name = "team", .when = {.tenants = {"red"}}, .forbid = {"api"}, .cost_max_usd = 0.5},
      {.name = "tools", .when = {.models = {"k3"}, .tools = true}, .ttft_s = 2, .itl_s = 0.05},
  };
  const std::string_view names[] = {"big", "small", "api"};
  struct {
    const char* name;
    rule_subject subject;
    std::vector<bool> excluded;
    double ttft_s;
    double cost_max;
    std::string_view by;
  } const cases[] = {
      {"none", {.model = "k3", .tenant = "blue", .prompt_tokens = 10}, {false, false, false}, 0, 0, ""},
      {"long", {.model = "k3", .prompt_tokens = 200'000}, {false, true, true}, 30, 0, "long"},
      {"team", {.model = "k3", .tenant = "red"}, {false, false, true}, 0, 0.5, "team"},
      {"all",
       {.model = "k3", .tenant = "red", .prompt_tokens = 200'000, .has_tools = true},
       {false, true, true},
       2,
       0.5,
       "long"},
      {"tools of another model", {.model = "x", .has_tools = true}, {false, false, false}, 0, 0, ""},
  };
  for (const auto& c : cases) {
    INFO(c.name);
    bool excluded[3] = {};
    scoring how;
    const auto by = apply_rules(rules, c.subject, names, excluded, how);
    CHECK(std::vector<bool>(excluded, excluded + 3) == c.excluded);
    CHECK(how.contract.ttft_s == c.ttft_s);
    CHECK(how.cost_max_usd == c.cost_max);
    CHECK(by == c.by);
  }
}

}  // namespace
}  // namespace weir::policy
