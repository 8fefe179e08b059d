// What may be spent on second tries: a share of what first tries amount to, within a rolling window. One for
// retries, in requests (10%, at least 3 in 10 s), so that retries of a fleet in trouble add at most a tenth
// to its load; one for hedges, in money.
//
// The window is ten slots, so that it covers between nine tenths and all of window_ns.
//
// Thread rule: any thread, no locks. Threads that take at the same moment never take more than the limit
// together; one that sleeps within a call may be counted in a later slot.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weir::policy::failover {

struct budget_terms {
  std::int64_t share_permille = 100;  // of what was added
  std::int64_t units_min = 3;         // in a window, whatever was added
  std::int64_t window_ns = 10'000'000'000;
};

class share_budget final {
 public:
  static constexpr std::size_t k_slots = 10;
  static constexpr std::int64_t k_units_max = std::int64_t{1} << 52;  // of one call

  explicit share_budget(const budget_terms& terms) noexcept : terms_(terms) {}

  // A first try. `now_ns` is a monotonic clock of the caller; here and below, 0 <= units <= k_units_max.
  void add(std::int64_t units, std::int64_t now_ns) noexcept;
  // A second one; false: it may not be made.
  bool take(std::int64_t units, std::int64_t now_ns) noexcept;
  // What was taken was not used after all.
  void give_back(std::int64_t units) noexcept;

  // Within the window; for metrics.
  std::int64_t added() const noexcept { return added_.load(std::memory_order_relaxed); }
  std::int64_t taken() const noexcept { return taken_.load(std::memory_order_relaxed); }

 private:
  struct slot {
    std::atomic<std::int64_t> added = 0;
    std::atomic<std::int64_t> taken = 0;
  };
  slot& slot_at(std::int64_t now_ns) noexcept;

  budget_terms terms_;
  std::array<slot, k_slots> slots_;
  std::atomic<std::int64_t> current_ = 0;  // slots since the clock's start
  std::atomic<std::int64_t> added_ = 0;    // sums over the slots
  std::atomic<std::int64_t> taken_ = 0;
  std::atomic_flag turning_;
};

}  // namespace weir::policy::failover
