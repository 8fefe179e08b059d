#include "policy/limits/price.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <optional>
#include <random>
#include <vector>

namespace weir::policy::limits {
namespace {

// $2 fresh, $0.20 read, $2.50 written, $8 output per million.
const std::vector<price_tier> k_tiers{{0,
                                       {.fresh = per_token(2),
                                        .cache_read = per_token(0.2),
                                        .cache_write = per_token(2.5),
                                        .output = per_token(8)}}};

TEST_CASE("D6: fresh, cache read, cache write and output have prices of their own") {
  const auto tokens = split({.prompt_tokens = 87'000,
                             .cache_read_tokens = 80'000,
                             .cache_write_tokens = 5'000,
                             .completion_tokens = 1'000},
                            counting::cached_included);
  CHECK(tokens.fresh == 2'000);
  const auto cost = price(tokens, k_tiers);
  CHECK(cost.amount == 40'500'000);  // 0.004 + 0.016 + 0.0125 + 0.008 dollars
  CHECK_FALSE(cost.unpriced);
}

TEST_CASE("D6: each token is charged once, whichever way the provider counts") {
  const reported_usage openai{.prompt_tokens = 1'000, .cache_read_tokens = 700, .completion_tokens = 10};
  const reported_usage anthropic{.prompt_tokens = 300, .cache_read_tokens = 700, .completion_tokens = 10};
  const auto a = split(openai, counting::cached_included);
  const auto b = split(anthropic, counting::cached_apart);
  CHECK(a.total() == 1'010);
  CHECK(b.total() == 1'010);
  CHECK(price(a, k_tiers).amount == price(b, k_tiers).amount);
}

TEST_CASE("D8: cached tokens without a price cost what fresh ones do, and the sum is marked") {
  const std::vector<price_tier> tiers{{0, {.fresh = per_token(2), .output = per_token(8)}}};
  const auto cost = price({.fresh = 100, .cache_read = 900}, tiers);
  CHECK(cost.amount == 2'000'000);
  CHECK(cost.unpriced);
  CHECK_FALSE(price({.fresh = 100, .output = 3}, tiers).unpriced);
  const auto free = price({.fresh = 1, .output = 1}, {});
  CHECK(free.amount == 0);
  CHECK(free.unpriced);
  CHECK_FALSE(price({}, {}).unpriced);
}

TEST_CASE("a price of zero is a price") {
  const std::vector<price_tier> tiers{{0, {.fresh = 0, .cache_read = 0, .cache_write = 0, .output = 0}}};
  const auto cost = price({.fresh = 10, .cache_read = 10, .cache_write = 10, .output = 10}, tiers);
  CHECK(cost.amount == 0);
  CHECK_FALSE(cost.unpriced);
}

TEST_CASE("long prompts have the prices of their tier") {
  auto tiers = k_tiers;
  tiers.push_back({200'001, {.fresh = per_token(4), .output = per_token(12)}});
  CHECK(price({.fresh = 200'000, .output = 1'000}, tiers).amount == 408'000'000);
  CHECK(price({.fresh = 200'001, .output = 1'000}, tiers).amount == 812'004'000);
}

TEST_CASE("reports that contradict themselves are clamped and say so") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  struct row {
    const char* name;
    reported_usage reported;
    usage expected;
  };
  for (const auto& r : {
           row{"more cached than there is", {10, 20, -1, 5}, {0, 10, 0, 5, true}},
           row{"read and write beyond the prompt", {10, 6, 6, 5}, {0, 6, 4, 5, true}},
           row{"negative", {-1, -1, -1, -7}, {0, 0, 0, 0, true}},
           row{"beyond all range", {most, most, most, most}, {0, k_tokens_max, 0, k_tokens_max, true}},
           row{"not reported", {10, -1, -1, 5}, {10, 0, 0, 5, false}},
       }) {
    INFO(r.name);
    const auto got = split(r.reported, counting::cached_included);
    CHECK(got.fresh == r.expected.fresh);
    CHECK(got.cache_read == r.expected.cache_read);
    CHECK(got.cache_write == r.expected.cache_write);
    CHECK(got.output == r.expected.output);
    CHECK(got.clamped == r.expected.clamped);
  }
}

TEST_CASE("the most a request may cost covers every way in which it can be cached") {
  const auto most = price_at_most(1'000, 100, k_tiers).amount;
  for (std::int64_t read = 0; read <= 1'000; read += 100) {
    for (std::int64_t write = 0; write + read <= 1'000; write += 100) {
      CHECK(price({1'000 - read - write, read, write, 100}, k_tiers).amount <= most);
    }
  }
}

TEST_CASE(
    "a bound on the prompt that reaches a dearer tier, or has left one, is priced at the dearest below it") {
  std::mt19937_64 random(3);
  const auto any_price = [&]() -> std::optional<usd_pico> {
    if (random() % 4 == 0) return std::nullopt;
    return per_token(static_cast<double>(random() % 20));
  };
  for (int run = 0; run < 300; ++run) {
    INFO("run " << run);
    std::vector<price_tier> tiers;
    std::int64_t from = random() % 2 == 0 ? 0 : 1 + static_cast<std::int64_t>(random() % 20);
    for (std::uint64_t i = 0; i < 1 + random() % 3; ++i) {
      tiers.push_back({from, {any_price(), any_price(), any_price(), any_price()}});
      from += 1 + static_cast<std::int64_t>(random() % 20);
    }
    const auto prompt = static_cast<std::int64_t>(random() % 60);
    const auto most = price_at_most(prompt, 7, tiers).amount;
    for (std::int64_t tokens = 0; tokens <= prompt; ++tokens) {
      for (std::int64_t read = 0; read <= tokens; read += 3) {
        for (std::int64_t write = 0; write + read <= tokens; write += 3) {
          REQUIRE(price({tokens - read - write, read, write, 7}, tiers).amount <= most);
        }
      }
    }
  }
}

TEST_CASE("a prompt of the cheaper long tier is reserved at what it would cost just below it") {
  const std::vector<price_tier> tiers{{0, {.fresh = per_token(10), .output = per_token(10)}},
                                      {1'000, {.fresh = per_token(1), .output = per_token(1)}}};
  CHECK(price_at_most(2'000, 100, tiers).amount == price({.fresh = 999, .output = 100}, tiers).amount);
}

TEST_CASE("cached tokens dearer than fresh ones are in the most that a request may cost") {
  for (const auto& prices : {price_list{.fresh = per_token(1), .cache_read = per_token(9), .output = 0},
                             price_list{.fresh = per_token(1), .cache_write = per_token(9), .output = 0}}) {
    const std::vector<price_tier> tiers{{0, prices}};
    CHECK(price_at_most(100, 0, tiers).amount == 900'000);
  }
}

TEST_CASE("output without a price of its own costs what fresh tokens do, and the sum is marked") {
  const std::vector<price_tier> tiers{{0, {.fresh = per_token(2)}}};
  const auto cost = price({.fresh = 10, .output = 100}, tiers);
  CHECK(cost.amount == 220'000);
  CHECK(cost.unpriced);
  CHECK(price_at_most(10, 100, tiers).amount == 220'000);
  CHECK(price_at_most(10, 100, tiers).unpriced);
}

TEST_CASE("sums round up and saturate instead of overflowing") {
  const std::vector<price_tier> cheap{{0, {.fresh = per_token(0.0375)}}};
  CHECK(price({.fresh = 1}, cheap).amount == 38);  // 37.5 thousand-millionths
  CHECK(price({.fresh = 2}, cheap).amount == 75);
  const std::vector<price_tier> dear{{0, {.fresh = per_token(1e9), .output = per_token(1e9)}}};
  const auto cost = price({.fresh = k_tokens_max, .output = k_tokens_max}, dear);
  CHECK(cost.amount == std::numeric_limits<usd_nano>::max());
  CHECK(per_token(-1) == 0);
}

}  // namespace
}  // namespace weir::policy::limits
