// A gateway's part of limits that several gateways share. The limit itself is kept elsewhere (the store: a
// GCRA cell, a set of slots, a sum of claims); what stands here is what the store has granted to this gateway
// for a while, so that a request takes of it without asking anybody.
//
//   take()        granted; refused, because the store is known to have no room; or ask the store
//   next_order()  what to ask: units that are wanted, and those to give back
//   apply()       the store's answer
//
// Invariants. Whatever passes here was granted by the store before, and every grant ends: units of a rate
// `lease_ns` after they were asked for (then they go back, as far as they have not leaked away), slots too,
// money after half of that. An order whose answer never came counts as granted there and not here. Hence over
// t seconds, over all gateways, no more than L + (t + lease) * L / W of a rate pass; money is
// never above its limit, nor are slots, but for requests that run on where the store was out of reach for a
// lease. A gateway holds at most two chunks of L / 32 of a rate that nobody uses.
//
// Pure: `now_ns` is a monotonic clock of the caller's; times of the store are opaque. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policy/limits/gcra.hpp"
#include "policy/limits/money.hpp"

namespace weir::policy::limits {

inline constexpr std::int64_t k_lease_parts = 32;       // of a limit: what is taken ahead at once
inline constexpr std::size_t k_refunds_per_order = 32;  // more are summed up
inline constexpr std::int64_t k_view_part = 16;  // of a lease: for so long the store is known to be empty

enum class lease_answer : std::uint8_t { granted, refused, ask };

// Units of one grant, here or on their way back. `until`: the store's cell behind the grant.
struct lease_units {
  std::int64_t units = 0;
  std::int64_t until = 0;
  std::int64_t expires_ns = 0;
};

struct rate_order {
  std::int64_t need = 0;  // the smallest request that waits lacks so many; with less nothing is granted
  std::int64_t want = 0;  // with those that are taken ahead
  std::int64_t owed = 0;  // used without having been taken; the store counts them whatever it has
  std::vector<lease_units> refunds;
};

struct rate_grant {
  std::int64_t units = 0;
  std::int64_t until = 0;
  std::int64_t ahead_ns = 0;  // of the store's cell, behind the grant
};

class rate_lease final {
 public:
  explicit rate_lease(std::int64_t lease_ns) : lease_ns_(lease_ns) {}

  struct verdict {
    lease_answer answer = lease_answer::ask;
    std::int64_t retry_ns = 0;  // refused
    lease_units got;
  };
  // REQUIRES: 0 <= units, and they fit the limit.
  verdict take(const rate& how, std::int64_t units, std::int64_t now_ns);
  void give_back(const lease_units& got, std::int64_t unused, std::int64_t now_ns);
  // What was used beyond what was taken.
  void charge(std::int64_t units) noexcept;

  // `least`, `sum`: of the units that requests wait for; 0: none waits. What is in the order is no longer
  // here.
  rate_order next_order(const rate& how, std::int64_t least, std::int64_t sum, std::int64_t now_ns);
  void apply(const rate_grant&, std::int64_t sent_ns, std::int64_t now_ns);
  // Everything goes back with the next order: the gateway stops.
  void end();

  // Less than half a chunk will be there when the next heartbeat comes, and somebody uses it.
  bool is_low(const rate& how, std::int64_t now_ns) const noexcept;
  bool has_news(std::int64_t now_ns);  // something to give back or to charge
  std::int64_t left(std::int64_t now_ns) const noexcept;
  // Of all gateways, as last heard of, and what is here.
  level look(const rate& how, std::int64_t now_ns) const noexcept;

 private:
  void expire(std::int64_t now_ns);
  void refund(const lease_units&);
  std::int64_t ahead_at(std::int64_t now_ns) const noexcept;

  std::int64_t lease_ns_;
  std::vector<lease_units> grants_;  // oldest first
  std::vector<lease_units> refunds_;
  std::int64_t owed_ = 0;
  std::int64_t ahead_ns_ = 0;  // of the store's cell at heard_ns_
  std::int64_t heard_ns_ = 0;  // 0: never
  bool used_ = false;          // since the last order that asked for more
};

// Requests that may run at once. The store keeps how many this gateway may run, as a whole number that each
// order replaces.
struct slot_order {
  std::int64_t running = 0;
  std::int64_t want = 0;
};

class slot_lease final {
 public:
  explicit slot_lease(std::int64_t lease_ns) : lease_ns_(lease_ns) {}

  lease_answer take(std::int64_t now_ns);
  void leave() noexcept { --running_; }
  void end() noexcept { peak_ = 0; }

  slot_order next_order(std::int64_t limit, std::int64_t waiting, std::int64_t now_ns);
  // `got`: how many may run here; `free`: how many more the store could have given.
  void apply(std::int64_t got, std::int64_t free, std::int64_t sent_ns, std::int64_t now_ns);

  std::int64_t running() const noexcept { return running_; }
  bool holds_any() const noexcept { return running_ > 0 || granted_ > 0; }

 private:
  std::int64_t lease_ns_;
  std::int64_t running_ = 0;
  std::int64_t granted_ = 0;
  std::int64_t peak_ = 0;  // of running_ since the last order
  std::int64_t expires_ns_ = 0;
  std::int64_t free_ = 0;
  std::int64_t heard_ns_ = 0;
};

// Money of one window. The store keeps one claim per gateway, of what it spent, reserved and may still
// reserve; the sum of claims is never above the limit, but for what was spent already. Who consumes the claim
// is the gateway's ledger: it checks against allowed() instead of the limit, so that nothing is counted
// twice.
struct claim_order {
  usd_nano hold = 0;  // what this gateway's claim is at least, whatever the others have
  usd_nano need = 0;  // beyond it, or nothing beyond it
  usd_nano want = 0;
  usd_nano known = 0;  // the store has at least this claim, or it has lost something
};

class claim_lease final {
 public:
  explicit claim_lease(std::int64_t lease_ns) : valid_ns_(lease_ns / 2), view_ns_(lease_ns / k_view_part) {}

  // What may be spent and reserved in all, in this window by this gateway.
  bool is_valid(std::int64_t now_ns) const noexcept { return now_ns < expires_ns_; }
  usd_nano allowed() const noexcept { return claim_; }
  // Whether the store is known to have no room for so much more.
  bool is_refused(usd_nano limit, usd_nano more, std::int64_t now_ns) const noexcept;
  void took(usd_nano amount) noexcept;

  // `taken`: spent and reserved by this gateway. From here on allowed() is no more than the order holds: what
  // the store is told is true when it hears it.
  claim_order next_order(usd_nano limit, usd_nano taken, usd_nano least, usd_nano sum, std::int64_t now_ns);
  // `total`: of all gateways' claims.
  void apply(usd_nano claim, usd_nano total, std::int64_t sent_ns, std::int64_t now_ns);
  // The order's answer did not come: it may have been obeyed or not.
  void lost() noexcept;
  // The store starts anew.
  void forget_store() noexcept { known_ = 0; }
  void end() noexcept { expires_ns_ = 0; }

  bool is_low(usd_nano limit, std::int64_t now_ns) const noexcept;
  bool has_spare() const noexcept { return spare_; }
  usd_nano total() const noexcept { return total_; }

 private:
  std::int64_t valid_ns_;
  std::int64_t view_ns_;
  usd_nano claim_ = 0;
  usd_nano known_ = 0;
  usd_nano sent_ = 0;  // held by the order on its way
  usd_nano total_ = 0;
  usd_nano since_ = 0;  // reserved since the last order
  usd_nano room_ = 0;   // that was left then
  bool spare_ = false;  // the claim was above what was taken then
  std::int64_t expires_ns_ = 0;
  std::int64_t heard_ns_ = 0;
  std::int64_t trim_ns_ = 0;  // until then what was granted stays for those who waited for it
};

}  // namespace weir::policy::limits
