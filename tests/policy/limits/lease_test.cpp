#include "policy/limits/lease.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "tests/policy/limits/virtual_time.hpp"

namespace weir::policy::limits {
namespace {

constexpr std::int64_t k_clock_ahead = 1'700'000'000 * k_s;  // the store's clock is not the gateways'

// The store's GCRA cell, as the script has it.
struct store_cell {
  std::int64_t tat = 0;

  rate_grant obey(const rate& how, const rate_order& order, std::int64_t now_ns) {
    const std::int64_t now = now_ns + k_clock_ahead;
    const auto cost = [&](std::int64_t units) {
      return static_cast<std::int64_t>(static_cast<int128>(units) * how.window_ns / how.limit);
    };
    tat = std::max(tat, now);
    for (const auto& r : order.refunds) {
      tat = std::max(now, tat - std::max<std::int64_t>(0, std::min(cost(r.units), r.until - now)));
    }
    tat += cost(order.owed);
    const auto room =
        static_cast<std::int64_t>(static_cast<int128>(std::max<std::int64_t>(0, now + how.window_ns - tat)) *
                                  how.limit / how.window_ns);
    const std::int64_t got = room >= order.need ? std::min(room, order.want) : 0;
    if (got > 0) tat += cost(got) + 1;
    return {.units = got, .until = tat, .ahead_ns = tat - now};
  }
};

struct passed {
  std::int64_t at_ns;
  std::int64_t units;
};

// Over every interval: limit + (its length + a lease) * limit / window.
void check_bound(std::vector<passed> all, const rate& how) {
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; });
  const auto leaked = [&](std::int64_t t) {
    return static_cast<double>(t) * static_cast<double>(how.limit) / static_cast<double>(how.window_ns);
  };
  double before = 0;
  double lowest = 0;
  bool is_first = true;
  for (const auto& p : all) {
    const double start = before - leaked(p.at_ns);
    lowest = is_first ? start : std::min(lowest, start);
    is_first = false;
    before += static_cast<double>(p.units);
    const double most = static_cast<double>(how.limit) + leaked(k_lease) + 1e-3;
    REQUIRE(before - leaked(p.at_ns) - lowest <= most);
  }
}

struct rate_world {
  timeline time;
  std::mt19937_64 random;
  rate how;
  store_cell store;
  std::vector<passed> passes;
  std::int64_t refused = 0, asked = 0, orders = 0;

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  }
};

// One gateway: requests that take units, wait for the store where it must, and settle with less or more.
class rate_gateway {
 public:
  rate_gateway(rate_world& world, std::int64_t loss_percent)
      : world_(world), lease_(k_lease), loss_percent_(loss_percent) {
    beat();
  }

  void request(std::int64_t units, int tries = 3) {
    if (is_dead) return;
    const auto got = lease_.take(world_.how, units, world_.time.now());
    if (got.answer == lease_answer::refused || tries == 0) {
      ++world_.refused;
      return;
    }
    if (got.answer == lease_answer::ask) {
      waiting_.push_back({units, tries});
      order();
      return;
    }
    settle_later(got.got);
    if (lease_.is_low(world_.how, world_.time.now())) order();
  }

  bool is_dead = false;

 private:
  struct waiter {
    std::int64_t units;
    int tries;
  };

  void settle_later(const lease_units& got) {
    const std::int64_t used = std::max<std::int64_t>(1, got.units - world_.below(got.units));
    world_.passes.push_back({world_.time.now(), used});
    world_.time.in(world_.below(8 * k_s), [this, got, used] {
      if (!is_dead) lease_.give_back(got, got.units - used, world_.time.now());
    });
  }

  void order() {
    if (in_flight_) return;
    in_flight_ = true;
    ++world_.orders;
    std::int64_t least = 0, sum = 0;
    for (const auto& w : waiting_) {
      least = least == 0 ? w.units : std::min(least, w.units);
      sum += w.units;
    }
    const auto sent = world_.time.now();
    const auto said = lease_.next_order(world_.how, least, sum, sent);
    const bool is_lost = world_.below(100) < loss_percent_;
    const bool answer_is_lost = world_.below(100) < loss_percent_;
    const auto there = world_.below(60 * k_ms), back = world_.below(60 * k_ms);
    world_.time.in(there, [this, said, sent, is_lost, answer_is_lost, back] {
      std::optional<rate_grant> got;
      if (!is_lost) got = world_.store.obey(world_.how, said, world_.time.now());
      if (answer_is_lost) got.reset();
      world_.time.in(back, [this, got, sent] { answered(got, sent); });
    });
  }

  void answered(const std::optional<rate_grant>& got, std::int64_t sent) {
    in_flight_ = false;
    if (is_dead) return;
    if (got) lease_.apply(*got, sent, world_.time.now());
    auto woken = std::exchange(waiting_, {});
    for (const auto& w : woken) request(w.units, got ? w.tries - 1 : 0);
  }

  void beat() {
    world_.time.in(k_lease / 4, [this] {
      if (is_dead) return;
      if (lease_.has_news(world_.time.now()) || lease_.is_low(world_.how, world_.time.now())) order();
      beat();
    });
  }

  rate_world& world_;
  rate_lease lease_;
  std::int64_t loss_percent_;
  bool in_flight_ = false;
  std::vector<waiter> waiting_;
};

TEST_CASE("rates: many gateways never pass the bound, whatever is lost and whoever dies") {
  const auto seed = std::random_device{}();
  std::mt19937_64 seeds(seed);
  for (int round = 0; round < 60; ++round) {
    const auto one = seeds();
    INFO("seed " << seed << ", round " << round);
    rate_world world{.random = std::mt19937_64(one)};
    world.how = {.limit = std::vector<std::int64_t>{3, 60, 100, 6'000, 100'000}[one % 5]};
    const auto loss = world.below(3) * 10;
    std::vector<std::unique_ptr<rate_gateway>> gateways;
    for (std::int64_t i = 0; i < 1 + world.below(6); ++i) {
      gateways.push_back(std::make_unique<rate_gateway>(world, loss));
    }
    const std::int64_t most = std::max<std::int64_t>(1, world.how.limit / 50);
    const auto span = 150 * k_s;
    for (int i = 0; i < 3'000; ++i) {
      world.time.in(world.below(span), [&world, &gateways, most] {
        auto& g = gateways[static_cast<std::size_t>(world.below(std::ssize(gateways)))];
        if (world.below(2'000) == 0) g->is_dead = true;
        g->request(1 + world.below(most));
      });
    }
    world.time.run_until(k_s + span + 20 * k_s);
    check_bound(world.passes, world.how);
    const bool lives = std::ranges::any_of(gateways, [](const auto& g) { return !g->is_dead; });
    if (lives) CHECK(world.passes.size() > 0);  // the only gateway may die at its first request
  }
}

TEST_CASE("rates: nearly all of the limit passes, and steady load asks seldom") {
  rate_world world{.random = std::mt19937_64(7), .how = {.limit = 60'000}};
  std::vector<std::unique_ptr<rate_gateway>> gateways;
  for (int i = 0; i < 3; ++i) gateways.push_back(std::make_unique<rate_gateway>(world, 0));
  constexpr int k_requests = 24'000;  // 600 a second, of 1,000 that are allowed
  for (int i = 0; i < k_requests; ++i) {
    world.time.in(i * 40 * k_s / k_requests,
                  [&gateways, i] { gateways[static_cast<std::size_t>(i % 3)]->request(1); });
  }
  world.time.run_until(60 * k_s);
  CHECK(world.refused == 0);
  CHECK(world.passes.size() == k_requests);
  CHECK(world.orders < k_requests / 50);
}

TEST_CASE("rates: asked for more than there is, no less than nine tenths of it passes") {
  rate_world world{.random = std::mt19937_64(8), .how = {.limit = 100}};
  std::vector<std::unique_ptr<rate_gateway>> gateways;
  for (int i = 0; i < 3; ++i) gateways.push_back(std::make_unique<rate_gateway>(world, 0));
  for (int i = 0; i < 3'000; ++i) {
    world.time.in(i * 10 * k_ms, [&gateways, i] { gateways[static_cast<std::size_t>(i % 3)]->request(1); });
  }
  world.time.run_until(40 * k_s);
  const auto total = std::ssize(world.passes);
  CHECK(total >= 135);  // 0.9 * (100 + 30 / 0.6)
  CHECK(total <= 154);
}

TEST_CASE("rates: what is not used comes back within a lease, for others to use") {
  rate_world world{.random = std::mt19937_64(9), .how = {.limit = 3'200}};
  rate_lease idle(k_lease);
  auto order = idle.next_order(world.how, 1, 1, world.time.now());
  idle.apply(world.store.obey(world.how, order, world.time.now()), world.time.now(), world.time.now());
  CHECK(idle.take(world.how, 1, world.time.now()).answer == lease_answer::granted);
  CHECK(idle.left(world.time.now()) == 100);
  const auto later = world.time.now() + k_lease;
  CHECK(idle.left(later) == 0);
  REQUIRE(idle.has_news(later));
  order = idle.next_order(world.how, 0, 0, later);
  CHECK(order.want == 100);  // it was used, so that the next ones need not wait
  CHECK(order.refunds.size() == 1);
  const auto got = world.store.obey(world.how, {.refunds = order.refunds}, later);
  CHECK(got.ahead_ns == 0);  // one unit leaked away long ago
}

TEST_CASE("rates: what was used beyond what was taken is owed") {
  rate_lease lease(k_lease);
  store_cell store;
  const rate how{.limit = 60};
  lease.charge(30);
  REQUIRE(lease.has_news(k_s));
  const auto got = store.obey(how, lease.next_order(how, 0, 0, k_s), k_s);
  CHECK(got.units == 0);
  CHECK(got.ahead_ns == 30 * k_s);
  CHECK_FALSE(lease.has_news(k_s));
}

TEST_CASE("rates: a store that is known to be empty is not asked again at once") {
  rate_lease lease(k_lease);
  const rate how{.limit = 60};
  CHECK(lease.take(how, 1, k_s).answer == lease_answer::ask);
  lease.apply({.units = 0, .until = 0, .ahead_ns = k_minute_ns}, k_s, k_s);
  const auto got = lease.take(how, 1, k_s);
  CHECK(got.answer == lease_answer::refused);
  CHECK(got.retry_ns == k_s);
  CHECK(lease.take(how, 1, k_s + k_lease / k_view_part).answer == lease_answer::ask);
}

}  // namespace
}  // namespace weir::policy::limits
