#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "policy/limits/lease.hpp"
#include "tests/policy/limits/virtual_time.hpp"

namespace weir::policy::limits {
namespace {

// Slots: the store's set, as the script has it.
struct store_slots {
  struct entry {
    std::int64_t slots, until;
  };
  std::map<int, entry> held;

  std::pair<std::int64_t, std::int64_t> obey(int who, std::int64_t limit, const slot_order& o,
                                             std::int64_t now) {
    std::erase_if(held, [&](const auto& h) { return h.second.until <= now; });
    std::int64_t others = 0;
    for (const auto& [name, h] : held) others += name == who ? 0 : h.slots;
    const auto got = std::max(o.running, std::min(o.want, limit - others));
    held[who] = {got, now + k_lease};
    return {got, limit - others - got};
  }
};

TEST_CASE("slots: never more run at once than the limit, but for what ran where the store was out of reach") {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  INFO("seed " << seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int round = 0; round < 50; ++round) {
    const std::int64_t limit = 1 + below(80);
    store_slots store;
    std::vector<slot_lease> gateways(static_cast<std::size_t>(1 + below(5)), slot_lease(k_lease));
    std::vector<std::int64_t> unheard(gateways.size());  // ran when the store heard it after its lease had
                                                         // ended, and may until it hears of less
    std::int64_t now = k_s, most = 0;
    const auto is_heard = [&](std::size_t i) {
      const auto held = store.held.find(static_cast<int>(i));
      return held != store.held.end() && held->second.until > now;
    };
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
        if (!is_heard(who)) unheard[who] = order.running;
        const auto [got, free] = store.obey(static_cast<int>(who), limit, order, now);
        if (below(10) == 0) continue;    // its answer was
        if (below(2) == 0) g.take(now);  // while it is on its way
        now += below(10 * k_ms);
        g.apply(got, free, sent, now);
        unheard[who] = std::min(unheard[who], std::max(got, g.running()));
      }
      // A gateway that was not heard of for a whole lease may not run what it holds.
      for (auto& other : gateways) {
        if (other.running() > 0 && below(50) == 0) other.leave();
      }
      std::int64_t running = 0, beyond = 0;
      for (std::size_t i = 0; i < gateways.size(); ++i) {
        if (!is_heard(i)) continue;
        running += gateways[i].running();
        beyond += unheard[i];
      }
      most = std::max(most, running - beyond);
      REQUIRE(running <= limit + beyond);
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

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  }
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
    if (!fits &&
        (tries == 0 || (lease_.is_valid(now) &&
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
    // After the store was emptied, a connection that broke is dialled again until each gateway was heard.
    const bool in_grace = sent < world_.since + k_lease / 2;
    const auto loss_percent = in_grace ? 0 : loss_percent_;
    const bool is_lost = world_.below(100) < loss_percent, answer_is_lost = world_.below(100) < loss_percent;
    const auto there = world_.below(60 * k_ms), back = world_.below(60 * k_ms);
    world_.time.in(there,
                   [this, said, sent, is_lost, answer_is_lost, back, session = session_, epoch = epoch_] {
                     if (session != session_ || epoch != world_.epoch)
                       return;  // the script does nothing for them
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
