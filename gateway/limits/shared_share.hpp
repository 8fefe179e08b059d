// A request's part of limits that several gateways share: takes of this gateway's leases, and waits for the
// store only where none is left, for redis.timeout_ms in all and step. Gives its slot back at its end.
//
// Thread rule: the request's I/O thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "gateway/shared/hub.hpp"

namespace weir::gateway::limits {

class shared_share final {
 public:
  // Outlived by the hub and by what the functions take.
  shared_share(shared::hub& hub, std::string_view account) : hub_(hub), key_(hub.of(account)) {}
  ~shared_share();
  shared_share(const shared_share&) = delete;
  shared_share& operator=(const shared_share&) = delete;

  enum class answer : std::uint8_t { granted, no_request, no_slot, no_tokens, away };
  struct verdict {
    answer what = answer::granted;
    std::int64_t retry_ns = 0;  // refused: from when on it may pass
  };
  // away: the store does not answer and nothing of it is left here.
  task<verdict> enter(const auth::key_limits& limits);
  task<verdict> take_tokens(const auth::key_limits& limits, std::int64_t units);
  void settle_tokens(std::int64_t used);

  // Never ask: that is waited for. `committed` is told when the reservation is on the disk.
  task<shared::key_lease::money_verdict> reserve(ledger::ledger& money, const auth::key_limits& limits,
                                                 policy::limits::usd_nano amount, std::string_view request_id,
                                                 ledger::copyable_done committed);
  void settled_money() { key_->settled(); }

  bool refuses_when_down() const noexcept { return hub_.refuses_when_down(); }
  policy::limits::level look_requests(const auth::key_limits& limits) const;
  policy::limits::level look_tokens(const auth::key_limits& limits) const;

 private:
  // The store answered `before`, and now not in time: others were quicker, or it is away.
  verdict unanswered(bool before, answer refusal) const noexcept;

  shared::hub& hub_;
  const shared::key_ref key_;
  bool has_slot_ = false;
  std::optional<policy::limits::lease_units> tokens_;
};

}  // namespace weir::gateway::limits
