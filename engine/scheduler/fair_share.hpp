// Deficit round robin among tenants: each in turn may be served until its credit is used up; what a turn took
// beyond the credit is a debt that later turns pay back. So tenants get equal amounts of service while they
// want it, whatever the sizes of their requests are, and nobody waits for more than one turn of each other.
// Pure. One thread (the worker's).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::engine::scheduler {

class fair_share final {
 public:
  explicit fair_share(std::int64_t quantum) : quantum_(quantum) {}

  void add(std::int32_t tenant);     // at the end of the round, with no credit
  void remove(std::int32_t tenant);  // credit and debt are forgotten

  struct turn {
    std::int32_t tenant = -1;  // -1: nobody wants anything
    std::int64_t credit = 0;   // > 0: what may be taken before the next one's turn
  };

  // Whose turn it is among those that `wants(tenant)`. Asking again without a charge gives the same answer.
  template <class Wants>
  turn next(const Wants& wants) {
    std::int64_t rounds = -1;  // until somebody has credit
    for (const entry& e : round_) {
      if (!wants(e.tenant)) continue;
      const std::int64_t needed = e.credit > 0 ? 0 : -e.credit / quantum_ + 1;
      rounds = rounds < 0 || needed < rounds ? needed : rounds;
    }
    if (rounds < 0) return {};
    if (rounds > 0) {
      for (entry& e : round_) e.credit = wants(e.tenant) ? e.credit + rounds * quantum_ : 0;
      cursor_ = (cursor_ + 1) % round_.size();
    }
    while (!wants(round_[cursor_].tenant) || round_[cursor_].credit <= 0) {
      cursor_ = (cursor_ + 1) % round_.size();
    }
    return {round_[cursor_].tenant, round_[cursor_].credit};
  }

  // REQUIRES: the tenant was added.
  void charge(std::int32_t tenant, std::int64_t amount);

 private:
  struct entry {
    std::int32_t tenant;
    std::int64_t credit;
  };

  std::int64_t quantum_;
  std::vector<entry> round_;
  std::size_t cursor_ = 0;
};

}  // namespace weir::engine::scheduler
