// Times are read off the plans, which add up from when a prefill could begin; nothing is waited for.
#include "loadtest/mock/replica.hpp"

#include <catch2/catch.hpp>
#include <numeric>
#include <optional>

namespace weir::loadtest::mock {
namespace {

using std::chrono::milliseconds;

replica_options options_of(double tokens_per_s) {
  replica_options out;
  out.prefill_tokens_per_s = tokens_per_s;
  out.cache = {.capacity_tokens = 1'000, .page_tokens = 10, .checkpoint_tokens = 50};
  return out;
}

prompt counting(int count, int first = 0, std::string salt = {}) {
  prompt out;
  out.tokens.resize(static_cast<std::size_t>(count));
  std::iota(out.tokens.begin(), out.tokens.end(), first);
  out.salt = std::move(salt);
  return out;
}

struct request {
  request(replica& of, prompt asked)
      : place(of.submit(std::move(asked), [this](const replica::prefill& told) { plan = told; })) {}
  request(const request&) = delete;
  request& operator=(const request&) = delete;

  std::optional<replica::prefill> plan;
  replica::place place;
};

std::int64_t cached(replica& of, prompt asked) {
  request one(of, std::move(asked));
  REQUIRE(one.plan);
  of.prefilled(one.place.number());
  return one.plan->cached_tokens;
}

TEST_CASE("prefills run one after another at their rate") {
  replica behind(options_of(1'000));
  request first(behind, counting(200));
  request second(behind, counting(100, 1'000));
  REQUIRE(first.plan);
  CHECK(first.plan->number == first.place.number());
  CHECK_FALSE(second.plan);
  CHECK(behind.load().waiting == 1);
  CHECK(behind.load().waiting_uncached_tokens == 100);
  behind.prefilled(first.place.number());
  REQUIRE(second.plan);
  CHECK(second.plan->due - first.plan->due == milliseconds(100));
  CHECK(behind.load().running == 2);
  CHECK(behind.load().running_tokens == 300);
}

TEST_CASE("what is cached takes no time, and is told") {
  replica behind(options_of(1'000));
  CHECK(cached(behind, counting(101)) == 0);
  CHECK(cached(behind, counting(101)) == 100);
  CHECK(cached(behind, counting(100)) == 0);  // the prompt end before the last token has no checkpoint yet
  CHECK(cached(behind, counting(100)) == 90);
  CHECK(cached(behind, counting(101, 0, "salt")) == 0);
  CHECK(cached(behind, counting(101, 0, "salt")) == 100);
  request next(behind, counting(201));
  request again(behind, counting(101, 7));
  behind.prefilled(next.place.number());
  REQUIRE(again.plan);
  CHECK(next.plan->cached_tokens == 100);
  CHECK(again.plan->due - next.plan->due == milliseconds(101));
  behind.clear_cache();
  behind.prefilled(again.place.number());
  CHECK(cached(behind, counting(101)) == 0);
}

TEST_CASE("hints are kept where they are accepted") {
  for (const bool accepts : {false, true}) {
    auto options = options_of(0);
    options.accepts_hints = accepts;
    replica behind(options);
    auto hinted = counting(101);
    hinted.checkpoint_at = {47, 42, 5, 1'000};
    CHECK(cached(behind, hinted) == 0);
    auto fork = counting(101);
    std::fill(fork.tokens.begin() + 50, fork.tokens.end(), 9'999);
    CHECK(cached(behind, fork) == (accepts ? 40 : 0));
  }
}

TEST_CASE("no more run than the batch holds, and who leaves makes room") {
  auto options = options_of(0);
  options.batch = 2;
  options.decode_ms = 5;
  options.decode_per_request_ms = 0.5;
  replica behind(options);
  std::optional<request> first(std::in_place, behind, counting(20));
  behind.prefilled(first->place.number());
  request second(behind, counting(20));
  behind.prefilled(second.place.number());
  std::optional<request> third(std::in_place, behind, counting(20));
  request fourth(behind, counting(20));
  CHECK(behind.token_ms() == 6);
  CHECK_FALSE(third->plan);
  third.reset();
  CHECK(behind.load().waiting == 1);
  CHECK_FALSE(fourth.plan);
  first.reset();
  REQUIRE(fourth.plan);
  CHECK(behind.load().running == 2);
}

TEST_CASE("who leaves during the prefill keeps nothing in the cache") {
  replica behind(options_of(10));
  std::optional<request> first(std::in_place, behind, counting(101));
  request second(behind, counting(101));
  const auto due = first->plan->due;
  behind.prefilled(second.place.number());
  CHECK_FALSE(second.plan);
  first.reset();
  REQUIRE(second.plan);
  CHECK(second.plan->cached_tokens == 0);
  CHECK(second.plan->due < due + milliseconds(10'100));
}

}  // namespace
}  // namespace weir::loadtest::mock
