#include "policy/failover/overload.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace weir::policy::failover {
namespace {

constexpr double k_rate = 1'000;  // tokens a second

queued_request request(shed_rank rank, std::uint32_t tenant, double work, double waited_s = 1) {
  return {.rank = rank, .tenant = tenant, .work_tokens = work, .waited_s = waited_s, .left_s = 60};
}

TEST_CASE("an empty queue takes anybody, whatever it takes") {
  CHECK(admit(request(2, 1, 1e9), {}, k_rate, {}, 1).why == refusal::none);
  CHECK(admit(request(0, 1, 10), {}, 0, {}, 1).why == refusal::none);
}

TEST_CASE("who would wait for too long is told so at once, with the time at which there is room") {
  std::vector<queued_request> waiting(20, request(3, 1, 1'000));  // 20 s of work
  for (const std::uint64_t seed : {1, 2, 3}) {
    const auto out = admit(request(3, 1, 500), waiting, k_rate, {.wait_max_s = 10}, seed);
    CHECK(out.why == refusal::too_late);
    CHECK(out.wait_s == Approx(20));
    CHECK(out.retry_after_s >= 10);
    CHECK(out.retry_after_s <= 15);
  }
  CHECK(admit(request(3, 1, 500), waiting, k_rate, {.wait_max_s = 10}, 1).retry_after_s !=
        admit(request(3, 1, 500), waiting, k_rate, {.wait_max_s = 10}, 2).retry_after_s);
  CHECK(admit(request(3, 1, 500), waiting, k_rate, {.wait_max_s = 20}, 1).why == refusal::none);
}

TEST_CASE("the wait and the own work have to fit into the time that is left") {
  const std::vector<queued_request> waiting(5, request(3, 1, 1'000));
  auto r = request(3, 1, 2'000);
  r.left_s = 7;
  CHECK(admit(r, waiting, k_rate, {}, 1).why == refusal::too_late);
  r.left_s = 8;
  CHECK(admit(r, waiting, k_rate, {}, 1).why == refusal::none);
}

TEST_CASE("work of lower ranks is not waited for, work of higher ones is") {
  std::vector<queued_request> waiting(100, request(k_batch_rank, 1, 1'000));
  CHECK(admit(request(3, 2, 500), waiting, k_rate, {}, 1).wait_s == 0);
  CHECK(admit(request(3, 2, 500), waiting, k_rate, {}, 1).why == refusal::none);
  waiting.assign(100, request(4, 1, 1'000));
  CHECK(admit(request(3, 2, 500), waiting, k_rate, {}, 1).why == refusal::too_late);
}

TEST_CASE("a flood of one tenant refuses that tenant, not the others") {
  std::vector<queued_request> waiting(100, request(3, 1, 1'000));
  CHECK(admit(request(3, 1, 500), waiting, k_rate, {}, 1).why == refusal::too_late);
  const auto other = admit(request(3, 2, 500), waiting, k_rate, {}, 1);
  CHECK(other.why == refusal::none);
  CHECK(other.wait_s == Approx(0.5));  // as much of the other's as its own
  auto ahead = request(3, 2, 500);
  ahead.lead_tokens = 20'000;  // it was served a lot lately
  CHECK(admit(ahead, waiting, k_rate, {}, 1).why == refusal::too_late);
  auto heavy = request(3, 2, 500);
  heavy.weight = 5;
  CHECK(admit(heavy, waiting, k_rate, {.wait_max_s = 0.2}, 1).why == refusal::none);
}

TEST_CASE("a full queue sheds shadow, batch, low priority; the newest of the fullest tenant first") {
  const queue_terms full{.requests_max = 4};
  const std::vector waiting{request(3, 1, 10, 9), request(k_batch_rank, 1, 10, 5),
                            request(k_shadow_rank, 2, 10, 7), request(2, 1, 10, 1)};
  struct row {
    const char* what;
    std::vector<queued_request> waiting;
    queued_request newcomer;
    refusal why;
    std::size_t victim;
  };
  const auto same = [](double a, double b, double c, double d) {
    return std::vector{request(3, 1, 10, a), request(3, 1, 10, b), request(3, 2, 10, c),
                       request(3, 1, 10, d)};
  };
  const row rows[] = {
      {"a shadow goes for anybody", waiting, request(k_batch_rank, 9, 10, 0), refusal::none, 2},
      {"a shadow does not come in", waiting, request(k_shadow_rank, 2, 10, 0), refusal::queue_full, k_nobody},
      {"then batch",
       {waiting[0], waiting[1], waiting[3], waiting[3]},
       request(2, 9, 10, 0),
       refusal::none,
       1},
      {"then the lower priority",
       {waiting[0], waiting[0], waiting[0], waiting[3]},
       request(3, 9, 10, 0),
       refusal::none,
       3},
      {"a lower one does not displace a higher",
       {4, request(3, 1, 10)},
       request(2, 9, 10, 0),
       refusal::queue_full,
       k_nobody},
      {"new before old", {4, request(3, 1, 10)}, request(3, 1, 10, 0), refusal::queue_full, k_nobody},
      {"the newest of the flood makes room for another tenant", same(9, 2, 1, 4), request(3, 3, 10, 0),
       refusal::none, 1},
      {"the flood's own next one is the newest", same(9, 2, 1, 4), request(3, 1, 10, 0), refusal::queue_full,
       k_nobody},
  };
  for (const auto& r : rows) {
    INFO(r.what);
    const auto out = admit(r.newcomer, r.waiting, k_rate, full, 1);
    CHECK_FALSE(surely_fits(r.newcomer, r.waiting.size(), 0, k_rate, full));
    CHECK(out.why == r.why);
    CHECK(out.victim == r.victim);
    CHECK(out.retry_after_s >= 1);
  }
}

TEST_CASE("of those that wait the hopeless are told early") {
  std::vector waiting{request(3, 1, 10'000), request(3, 1, 500)};
  waiting[0].left_s = 11;
  waiting[1].left_s = 1;
  CHECK(hopeless(waiting, k_rate) == k_nobody);
  waiting[0].left_s = 9;
  CHECK(hopeless(waiting, k_rate) == 0);
  waiting[0].left_s = 11;
  waiting[1].left_s = 0;
  CHECK(hopeless(waiting, 0) == 1);
}

TEST_CASE("the drain rate: what configuration expects until a backlog tells better") {
  drain_meter m;
  CHECK(m.tokens_per_s(8'000, 0, 10) == Approx(8'000));
  // Served as they come: no evidence, however many.
  double now = 10;
  for (int i = 0; i < 1'000; ++i) {
    m.changed(0, 0, now);
    m.changed(1, 5'000, now += 0.001);
    now += 0.01;
  }
  CHECK(m.tokens_per_s(8'000, 0, now) == Approx(8'000));
  // A backlog that is worked off at 2,000 a second.
  m.changed(0, 0, now);
  for (int i = 0; i < 300; ++i) m.changed(10, 200, now += 0.1);
  CHECK(m.tokens_per_s(8'000, 10, now) == Approx(2'000).margin(200));
  CHECK(m.tokens_per_s(2'000, 10, now) == Approx(2'000).margin(100));
  // It stalls.
  CHECK(m.tokens_per_s(2'000, 10, now + 10) < 1'000);
  // With nobody waiting time says nothing.
  m.changed(10, 200, now);
  CHECK(m.tokens_per_s(2'000, 0, now + 1'000) == Approx(2'000).margin(100));
}

TEST_CASE("where nobody says how fast targets are, nothing is known before a second of backlog") {
  drain_meter m;
  double now = 10;
  m.changed(0, 0, now);
  for (int i = 0; i < 8; ++i) m.changed(10, 200, now += 0.1);
  CHECK(m.tokens_per_s(0, 10, now) == 0);
  for (int i = 0; i < 300; ++i) m.changed(10, 200, now += 0.1);
  CHECK(m.tokens_per_s(0, 10, now) == Approx(2'000).margin(200));
}

TEST_CASE("whoever is refused gets a Retry-After within bounds, whoever is admitted a bounded wait") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  INFO("seed " << seed);
  const auto below = [&random](std::uint64_t n) { return random() % n; };
  for (int round = 0; round < 3'000; ++round) {
    std::vector<queued_request> waiting(below(60));
    const auto fill = [&](queued_request& r) {
      r = request(static_cast<shed_rank>(below(6)), static_cast<std::uint32_t>(below(4)),
                  static_cast<double>(1 + below(5'000)), static_cast<double>(below(100)) / 10);
      r.weight = static_cast<std::int64_t>(1 + below(4));
      r.left_s = static_cast<double>(below(60));
      r.lead_tokens = static_cast<double>(below(3'000));
    };
    for (auto& w : waiting) fill(w);
    queued_request newcomer;
    fill(newcomer);
    const queue_terms terms{.requests_max = 1 + below(60)};
    const auto out = admit(newcomer, waiting, k_rate, terms, random());
    if (out.why != refusal::none || out.victim != k_nobody) {
      REQUIRE(out.retry_after_s >= terms.retry_after_min_s);
      REQUIRE(out.retry_after_s <= terms.retry_after_max_s);
    }
    if (out.why == refusal::none) {
      REQUIRE(out.wait_s <= terms.wait_max_s);
      REQUIRE((waiting.size() < terms.requests_max) == (out.victim == k_nobody));
    }
    if (out.victim == k_nobody) continue;
    REQUIRE(out.why == refusal::none);
    for (const auto& w : waiting) REQUIRE(waiting[out.victim].rank <= w.rank);
    REQUIRE(waiting[out.victim].rank <= newcomer.rank);
  }
}

}  // namespace
}  // namespace weir::policy::failover
