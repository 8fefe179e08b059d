#include "policy/limits/lease.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

namespace weir::policy::limits {
namespace {

constexpr std::int64_t k_ms = 1'000'000;
constexpr std::int64_t k_s = 1'000 * k_ms;
constexpr std::int64_t k_lease = 2 * k_s;
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
    const auto room = static_cast<std::int64_t>(
        static_cast<int128>(std::max<std::int64_t>(0, now + how.window_ns - tat)) * how.limit / how.window_ns);
    const std::int64_t got = room >= order.need ? std::min(room, order.want) : 0;
    if (got > 0) tat += cost(got) + 1;
    return {.units = got, .until = tat, .ahead_ns = tat - now};
  }
};

// Everything that happens, by virtual time.
class timeline {
 public:
  std::int64_t now() const { return now_; }
  void in(std::int64_t after_ns, std::function<void()> what) { events_.emplace(now_ + after_ns, std::move(what)); }
  void run_until(std::int64_t end_ns) {
    while (!events_.empty() && events_.begin()->first <= end_ns) {
      now_ = events_.begin()->first;
      const auto what = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      what();
    }
    now_ = end_ns;
  }

 private:
  std::int64_t now_ = k_s;
  std::multimap<std::int64_t, std::function<void()>> events_;
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

  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); }
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
    CHECK(world.passes.size() > 0);
  }
}

TEST_CASE("rates: nearly all of the limit passes, and steady load asks seldom") {
  rate_world world{.random = std::mt19937_64(7), .how = {.limit = 60'000}};
  std::vector<std::unique_ptr<rate_gateway>> gateways;
  for (int i = 0; i < 3; ++i) gateways.push_back(std::make_unique<rate_gateway>(world, 0));
  constexpr int k_requests = 24'000;  // 600 a second, of 1,000 that are allowed
  for (int i = 0; i < k_requests; ++i) {
    world.time.in(i * 40 * k_s / k_requests, [&gateways, i] { gateways[static_cast<std::size_t>(i % 3)]->request(1); });
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
  CHECK(order.want == 101);  // it was used, so that the next ones need not wait
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

// Slots: the store's set, as the script has it.
struct store_slots {
  struct entry {
    std::int64_t slots, until;
  };
  std::map<int, entry> held;

  std::pair<std::int64_t, std::int64_t> obey(int who, std::int64_t limit, const slot_order& o, std::int64_t now) {
    std::erase_if(held, [&](const auto& h) { return h.second.until <= now; });
    std::int64_t others = 0;
    for (const auto& [name, h] : held) others += name == who ? 0 : h.slots;
    const auto got = std::max(o.running, std::min(o.want, limit - others));
    held[who] = {got, now + k_lease};
    return {got, limit - others - got};
  }
};

TEST_CASE("slots: never more run at once than the limit, over all gateways") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  INFO("seed " << seed);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
  for (int round = 0; round < 50; ++round) {
    const std::int64_t limit = 1 + below(80);
    store_slots store;
    std::vector<slot_lease> gateways(static_cast<std::size_t>(1 + below(5)), slot_lease(k_lease));
    std::int64_t now = k_s, most = 0;
    for (int step = 0; step < 4'000; ++step) {
      now += below(20 * k_ms);
      const auto who = static_cast<std::size_t>(below(std::ssize(gateways)));
      auto& g = gateways[who];
      if (below(2) == 0 && g.running() > 0) g.leave();
      if (g.take(now) == lease_answer::ask || below(10) == 0) {
        const auto order = g.next_order(limit, below(3), now);
        const auto sent = now;
        now += below(10 * k_ms);
        if (below(10) == 0) continue;  // lost on its way
        const auto [got, free] = store.obey(static_cast<int>(who), limit, order, now);
        if (below(10) == 0) continue;  // its answer was
        if (below(2) == 0) g.take(now);  // while it is on its way
        now += below(10 * k_ms);
        g.apply(got, free, sent, now);
      }
      // A gateway that was not heard of for a whole lease may not run what it holds.
      for (auto& other : gateways) {
        if (other.running() > 0 && below(50) == 0) other.leave();
      }
      std::int64_t running = 0;
      for (std::size_t i = 0; i < gateways.size(); ++i) {
        const auto held = store.held.find(static_cast<int>(i));
        const bool is_heard = held != store.held.end() && held->second.until > now;
        running += is_heard ? gateways[i].running() : 0;
      }
      most = std::max(most, running);
      REQUIRE(running <= limit);
    }
    CHECK(most > 0);
  }
}

// Money: claims in the store, and gateways whose ledgers consume them.
struct money_world {
  timeline time;
  std::mt19937_64 random;
  usd_nano limit = 0;
  std::map<int, usd_nano> claims;
  int epoch = 1;
  std::int64_t since = -k_minute_ns;
  std::int64_t granted = 0, refused = 0;

  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); }
  void empty() {
    claims.clear();
    ++epoch;
    since = time.now();
  }
};

class money_gateway {
 public:
  money_gateway(money_world& world, int name, std::int64_t loss_percent)
      : world_(world), lease_(k_lease), name_(name), loss_percent_(loss_percent) {
    beat();
  }

  usd_nano taken() const { return spent_ + reserved_; }

  void request(usd_nano amount, int tries = 3) {
    const auto now = world_.time.now();
    const bool fits = lease_.is_valid(now) && taken() + amount <= lease_.allowed();
    if (!fits && (tries == 0 || (lease_.is_valid(now) &&
                                 lease_.is_refused(world_.limit, taken() + amount - lease_.allowed(), now)))) {
      ++world_.refused;
      return;
    }
    if (!fits) {
      waiting_.push_back({amount, tries});
      return order();
    }
    ++world_.granted;
    reserved_ += amount;
    lease_.took(amount);
    world_.time.in(world_.below(3 * k_s), [this, amount, life = life_] {
      if (life != life_) return;
      reserved_ -= amount;
      spent_ += world_.below(amount + 1);
    });
    if (lease_.is_low(world_.limit, now)) order();
  }

  // Its ledger charges what was reserved; the lease is gone.
  void crash() {
    ++life_;
    spent_ += std::exchange(reserved_, 0);
    lease_ = claim_lease(k_lease);
    waiting_.clear();
    in_flight_ = false;
    ++session_;
    order();
  }

  void hello() {
    ++session_;
    in_flight_ = false;
    epoch_ = world_.epoch;
    lease_.forget_store();
    order();
  }

 private:
  struct waiter {
    usd_nano amount;
    int tries;
  };

  void order() {
    if (in_flight_) return;
    in_flight_ = true;
    usd_nano least = 0, sum = 0;
    for (const auto& w : waiting_) {
      least = least == 0 ? w.amount : std::min(least, w.amount);
      sum += w.amount;
    }
    const auto sent = world_.time.now();
    const auto said = lease_.next_order(world_.limit, taken(), least, sum, sent);
    const bool is_lost = world_.below(100) < loss_percent_, answer_is_lost = world_.below(100) < loss_percent_;
    const auto there = world_.below(60 * k_ms), back = world_.below(60 * k_ms);
    world_.time.in(there, [this, said, sent, is_lost, answer_is_lost, back, session = session_, epoch = epoch_] {
      if (session != session_ || epoch != world_.epoch) return;  // the script does nothing for them
      std::optional<std::pair<usd_nano, usd_nano>> got;
      if (!is_lost) got = obey(said);
      if (answer_is_lost) got.reset();
      world_.time.in(back, [this, got, sent, session] {
        if (session == session_) answered(got, sent);
      });
    });
  }

  std::pair<usd_nano, usd_nano> obey(const claim_order& said) {
    REQUIRE((said.known == 0 || world_.claims[name_] >= said.known));
    usd_nano others = 0;
    for (const auto& [who, claim] : world_.claims) others += who == name_ ? 0 : claim;
    usd_nano claim = said.hold;
    const usd_nano room = world_.limit - others - said.hold;
    const bool in_grace = world_.time.now() < world_.since + k_lease / 2;
    if (!in_grace && said.want > 0 && room > 0 && room >= said.need) claim += std::min(room, said.want);
    world_.claims[name_] = claim;
    return {claim, others + claim};
  }

  void answered(const std::optional<std::pair<usd_nano, usd_nano>>& got, std::int64_t sent) {
    in_flight_ = false;
    if (got) lease_.apply(got->first, got->second, sent, world_.time.now());
    if (!got) lease_.lost();
    for (const auto& w : std::exchange(waiting_, {})) request(w.amount, got ? w.tries - 1 : 0);
  }

  void beat() {
    world_.time.in(k_lease / 4, [this] {
      if (!in_flight_ || world_.below(4) == 0) hello_or_order();
      beat();
    });
  }
  void hello_or_order() { epoch_ == world_.epoch ? order() : hello(); }

  money_world& world_;
  claim_lease lease_;
  int name_;
  std::int64_t loss_percent_;
  int life_ = 0, session_ = 0, epoch_ = 1;
  bool in_flight_ = false;
  usd_nano spent_ = 0, reserved_ = 0;
  std::vector<waiter> waiting_;
};

TEST_CASE("money: what all gateways spent and reserved never exceeds the limit") {
  const auto seed = std::random_device{}();
  std::mt19937_64 seeds(seed);
  std::int64_t granted = 0, refused = 0;
  for (int round = 0; round < 60; ++round) {
    INFO("seed " << seed << ", round " << round);
    money_world world{.random = std::mt19937_64(seeds())};
    world.limit = k_usd * (1 + world.below(5));
    const auto loss = world.below(3) * 10;
    std::vector<std::unique_ptr<money_gateway>> gateways;
    for (int i = 0; i < 1 + world.below(6); ++i) {
      gateways.push_back(std::make_unique<money_gateway>(world, i, loss));
    }
    const auto check = [&] {
      usd_nano all = 0;
      for (const auto& g : gateways) all += g->taken();
      REQUIRE(all <= world.limit);
    };
    const bool empties = world.below(2) == 0;
    for (int i = 0; i < 2'000; ++i) {
      world.time.in(world.below(40 * k_s), [&] {
        auto& g = gateways[static_cast<std::size_t>(world.below(std::ssize(gateways)))];
        if (world.below(800) == 0) g->crash();
        if (empties && world.below(800) == 0) {
          // Every gateway is heard before money is granted again: that is what the pause is for.
          world.empty();
          for (auto& other : gateways) {
            world.time.in(world.below(k_lease / 4), [&other] { other->hello(); });
          }
        }
        g->request(1 + world.below(k_usd / 100));
        check();
      });
    }
    world.time.run_until(60 * k_s);
    check();
    granted += world.granted;
    refused += world.refused;
  }
  CHECK(granted > 1'000);
  CHECK(refused > 1'000);
}

TEST_CASE("money: an unused claim goes back, and ends by itself") {
  claim_lease lease(k_lease);
  auto order = lease.next_order(32 * k_usd, 0, k_usd, k_usd, k_s);
  CHECK(order.hold == 0);
  CHECK(order.need == k_usd);
  CHECK(order.want == 2 * k_usd);
  lease.apply(2 * k_usd, 2 * k_usd, k_s, k_s);
  CHECK(lease.is_valid(k_s));
  CHECK(lease.has_spare());
  CHECK_FALSE(lease.is_valid(k_s + k_lease / 2));
  lease.took(k_usd);
  order = lease.next_order(32 * k_usd, k_usd, 0, 0, k_s + 1);
  CHECK(order.hold == 2 * k_usd);  // in use: a chunk stays
  lease.apply(2 * k_usd, 2 * k_usd, k_s, k_s);
  order = lease.next_order(32 * k_usd, k_usd, 0, 0, k_s + 2);
  CHECK(order.hold == k_usd);
  CHECK(lease.allowed() == k_usd);
}

}  // namespace
}  // namespace weir::policy::limits
