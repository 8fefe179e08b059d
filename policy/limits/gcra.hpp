// A rate limit as one number: the generic cell rate algorithm (ITU-T I.371), which is a leaky bucket without
// a timer. The cell holds the time at which the bucket will be empty; taking n of a limit of L per window W
// moves it by n * W / L, and what would move it further than W ahead of now is refused. An idle cell lets L
// pass at once; over t seconds never more than L + t * L / W pass.
//
// Times are those of a monotonic clock of the caller, in ns since its start; counts and times of any size are
// cut to what can be computed. Thread rule: any thread; one atomic word, no locks. A cell outlives changes of
// its limit.
#pragma once

#include <atomic>
#include <cstdint>

namespace weir::policy::limits {

inline constexpr std::int64_t k_minute_ns = 60'000'000'000;
// Largest limit: beyond it a unit's share of a minute is below the clock's resolution.
inline constexpr std::int64_t k_rate_max = 1'000'000'000;
// Of a cell, at most: all of a window taken, and as much owed. One absurd charge locks nobody out for longer.
inline constexpr std::int64_t k_windows_ahead = 2;

struct rate {
  std::int64_t limit = 0;  // 1..k_rate_max units per window
  std::int64_t window_ns = k_minute_ns;
};

// A cell at a moment. OpenAI's x-ratelimit headers: reset is the time until the bucket is empty again.
struct level {
  std::int64_t remaining = 0;  // units that may be taken now, all at once
  std::int64_t reset_ns = 0;
};

// What was taken, to give back what of it turns out unused.
struct taken {
  std::int64_t units = 0;
  std::int64_t until = 0;  // the cell's value behind it
};

class gcra_cell final {
 public:
  struct verdict {
    bool allowed = false;
    std::int64_t retry_ns = 0;  // refused: from when on it would pass, if nobody else takes
    level after;
    taken got;
  };

  // REQUIRES: 0 <= units. More than the limit never passes: ask fits() first.
  verdict take(const rate& how, std::int64_t units, std::int64_t now_ns) noexcept;

  // Gives back what of `got` was not used. What has leaked away by now is gone: so the bound on what passes
  // holds for every interval, whatever is given back.
  void give_back(const rate& how, const taken& got, std::int64_t unused_units, std::int64_t now_ns) noexcept;

  // What was used beyond what was taken; never refused, the next ones wait for it: at most for a window, as
  // no more than the limit is owed.
  void charge(const rate& how, std::int64_t units, std::int64_t now_ns) noexcept;

  // What lies ahead of now, to be restored after a restart; restoring never shortens it.
  std::int64_t empty_in_ns(std::int64_t now_ns) const noexcept;
  void restore(std::int64_t empty_in_ns, std::int64_t now_ns) noexcept;

  level look(const rate& how, std::int64_t now_ns) const noexcept;

 private:
  std::atomic<std::int64_t> empty_at_ = 0;  // in ticks of 1/16 ns
};

inline bool fits(const rate& how, std::int64_t units) noexcept {
  return units <= how.limit;
}

}  // namespace weir::policy::limits
