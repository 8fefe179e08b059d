// Break-evens against what they claim, by trying loads and rates on both sides of them.
#include "policy/economics/break_even.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "policy/economics/compare.hpp"
#include "tests/policy/economics/samples.hpp"

namespace weir::policy::economics {
namespace {

using kind = crossing::kind;

// One second of work for a prompt without hits, half a second for the output; one replica, $10 an hour.
balance plain() {
  return {.usd_per_replica_hour = 10,
          .usd_fixed_per_hour = 0,
          .spares = 0,
          .bounds = {{.name = "work", .fixed_s = 0.5, .cold_s = 1, .available_s = 3600}},
          .peak_to_mean = 1,
          .self_hit_rate = 0.5,
          .self_accepted = 1,
          .api = {.input_cold = 0.008, .saved_by_hits = 0.006, .output = 0.002},
          .api_hit_rate = 0.5,
          .api_accepted = 1,
          .reuse_share = 1};
}

// Of an accepted result, with as many replicas as the load needs.
double own_usd(const balance& b, double load) {
  const auto bound = replicas_per_load(b.bounds, b.peak_to_mean, b.self_hit_rate);
  return b.fleet_usd_per_hour(replicas_for(load, bound) + b.spares) / (load * b.self_accepted);
}

bool no_dearer(const balance& b, double load) {
  return own_usd(b, load) <= b.api_usd_per_accepted(b.api_hit_rate) * (1 + 1e-9);
}

TEST_CASE("a replica that pays for itself just when it is full") {
  // Half a prompt and the output: 1 s, 3600 an hour. The API takes 0.008 - 0.003 + 0.002 = $0.007.
  auto b = plain();
  b.usd_per_replica_hour = 25.2;  // 3600 x 0.007
  CHECK(first_break_even(b).what == kind::at);
  CHECK(first_break_even(b).value == Approx(3600));
  CHECK(fleet_break_even(b, 1).value == Approx(3600));
  CHECK(lasting_break_even(b).what == kind::never);  // each next step starts dearer
  b.usd_fixed_per_hour = 0.01;
  CHECK(first_break_even(b).what == kind::never);
  CHECK(fleet_break_even(b, 1).what == kind::never);
}

TEST_CASE("loads of the plain case") {
  const auto b = plain();
  // $10 / $0.007 = 1428.57; the second replica starts at 3600 and $20 / $0.007 = 2857.14: always paid for.
  CHECK(first_break_even(b).value == Approx(10 / 0.007));
  CHECK(lasting_break_even(b).value == Approx(10 / 0.007));
  CHECK(lasting_break_even(b).replicas == 1);
}

TEST_CASE("machines that cost nothing, an API that costs nothing, requests that take nothing") {
  auto b = plain();
  b.usd_per_replica_hour = 0;
  CHECK(first_break_even(b).what == kind::always);
  CHECK(lasting_break_even(b).what == kind::always);
  CHECK(fleet_break_even(b, 1).what == kind::always);
  CHECK(self_hit_break_even(b, 1e9).what == kind::always);
  b = plain();
  b.api = {};
  CHECK(first_break_even(b).what == kind::never);
  CHECK(lasting_break_even(b).what == kind::never);
  CHECK(fleet_break_even(b, 5).what == kind::never);
  CHECK(self_hit_break_even(b, 100).what == kind::never);
  b = plain();
  b.bounds[0].fixed_s = 0;
  b.self_hit_rate = 1;
  CHECK(first_break_even(b).value == Approx(10 / 0.007));
  CHECK(lasting_break_even(b).value == Approx(10 / 0.007));
}

TEST_CASE("hit rates on both sides") {
  auto b = plain();
  // 7200 an hour are worth $50.40: five replicas, 2.5 s for a request; it takes 1.5 s at most.
  CHECK(self_hit_break_even(b, 7200).what == kind::always);
  // At $24 a replica two are paid for: 1 s for a request, so half of the prompt must hit.
  b.usd_per_replica_hour = 24;
  CHECK(self_hit_break_even(b, 7200).what == kind::at);
  CHECK(self_hit_break_even(b, 7200).value == Approx(0.5));
  CHECK(self_hit_break_even(b, 7200).replicas == 2);
  b.reuse_share = 0.49;
  CHECK(self_hit_break_even(b, 7200).what == kind::never);
  // At $50 one is: 0.5 s, the output alone.
  b.usd_per_replica_hour = 50;
  b.reuse_share = 1;
  CHECK(self_hit_break_even(b, 7200).value == Approx(1));
  b.usd_per_replica_hour = 51;
  CHECK(self_hit_break_even(b, 7200).what == kind::never);

  // The API takes $0.010 without hits, $0.004 with all.
  CHECK(api_hit_break_even(b, 0.007).what == kind::at);
  CHECK(api_hit_break_even(b, 0.007).value == Approx(0.5));
  CHECK(api_hit_break_even(b, 0.011).what == kind::always);
  CHECK(api_hit_break_even(b, 0.003).what == kind::never);
  b.api_accepted = 0.5;  // its results cost twice as much
  CHECK(api_hit_break_even(b, 0.014).value == Approx(0.5));
}

TEST_CASE("loads on both sides of a break-even, any fleet") {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution(low, high)(random);
  };
  int found = 0;
  for (int round = 0; round < 2000; ++round) {
    auto b = plain();
    b.usd_per_replica_hour = between(1, 30);
    b.usd_fixed_per_hour = round % 2 == 0 ? 0 : between(0, 100);
    b.spares = round % 3;
    b.peak_to_mean = between(1, 4);
    b.self_hit_rate = between(0, 1);
    b.self_accepted = between(0.5, 1);
    if (round % 5 == 0) {
      b.bounds.push_back({.name = "memory", .fixed_s = between(1, 60), .cold_s = 1, .available_s = 72'000});
    }
    const auto first = first_break_even(b);
    const auto lasting = lasting_break_even(b);
    const double each = 1 / replicas_per_load(b.bounds, b.peak_to_mean, b.self_hit_rate).replicas;
    // Every step's end is where self-hosting is cheapest on it, its begin where it is dearest.
    for (int step = 1; step <= 400; ++step) {
      const double end = step * each;
      if (first.what != kind::at || end < first.value * (1 - 1e-9)) {
        CHECK(own_usd(b, end) >= b.api_usd_per_accepted(b.api_hit_rate) * (1 - 1e-9));
      }
      const double begin = end * (1 + 1e-9);
      if (lasting.what == kind::at && begin > lasting.value) CHECK(no_dearer(b, begin));
    }
    if (first.what == kind::at) {
      ++found;
      CHECK(no_dearer(b, first.value));
      CHECK_FALSE(no_dearer(b, first.value * (1 - 1e-6)));
      CHECK(replicas_for(first.value * (1 - 1e-9), {.replicas = 1 / each, .name = {}}) + b.spares ==
            first.replicas);
    }
    if (lasting.what == kind::at) {
      CHECK(lasting.value >= first.value * (1 - 1e-9));
      CHECK(no_dearer(b, lasting.value * (1 + 1e-6)));
      // The step on which it lies begins dearer.
      const double begin = static_cast<double>(lasting.replicas - b.spares - 1) * each;
      if (lasting.value > begin * (1 + 1e-8)) CHECK_FALSE(no_dearer(b, begin * (1 + 1e-10)));
    }
  }
  CHECK(found > 100);
}

TEST_CASE("a hit rate needed is the least that is affordable") {
  for (const double load : {500.0, 3'000.0, 20'000.0, 123'456.0}) {
    for (const double usd : {5.0, 15.0, 20.0, 24.0, 27.0}) {
      auto b = plain();
      b.usd_per_replica_hour = usd;
      b.usd_fixed_per_hour = 3;
      const auto even = self_hit_break_even(b, load);
      INFO("load " << load << ", $" << usd << ", rate " << even.value);
      if (even.what != kind::at) {
        b.self_hit_rate = even.what == kind::never ? 1 : 0;
        CHECK(no_dearer(b, load) == (even.what == kind::always));
        continue;
      }
      b.self_hit_rate = even.value;
      CHECK(no_dearer(b, load));
      b.self_hit_rate = even.value - 1e-6;
      CHECK_FALSE(no_dearer(b, load));
    }
  }
}

TEST_CASE("the curve crosses where the break-even says") {
  const auto in = k3_on_one_node();
  const auto points = curve(in, 256);
  REQUIRE(points.size() == 256);
  for (const auto& p : points) {
    REQUIRE(p.own_usd);
    if (p.requests_per_hour < 2499) CHECK(*p.own_usd > p.api_usd);
    if (p.requests_per_hour > 5001) CHECK(*p.own_usd < p.api_usd);
    CHECK(p.api_usd == Approx(0.02));
  }
  CHECK(points.front().requests_per_hour < 2500);
  CHECK(points.back().requests_per_hour > 5000);
  CHECK(curve({}, 10).empty());
}

TEST_CASE("spares follow the binomial law") {
  const failures rare{.losses_per_replica_month = 1, .down_share = 0.01};
  CHECK(spares_for(1, rare, 0.99, 10) == 0);    // up 0.99 of the time
  CHECK(spares_for(1, rare, 0.9999, 10) == 1);  // both down 1e-4 of it
  CHECK(spares_for(1, rare, 0.99991, 10) == 2);
  CHECK(spares_for(100, rare, 0.999, 10) ==
        5);  // of 105: more than 5 down in 0.0006 of it, of 104 4 in 0.004
  CHECK_FALSE(spares_for(100, {.losses_per_replica_month = 1, .down_share = 0.5}, 0.999, 10));
  CHECK(spares_for(1'000'000, {.losses_per_replica_month = 0, .down_share = 0}, 0.999, 10) == 0);
}

}  // namespace
}  // namespace weir::policy::economics
