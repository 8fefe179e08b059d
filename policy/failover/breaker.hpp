// Whether a target may be used. Closed: yes. Open: after consecutive failures, or a share of failures within
// a window, not for 30 s x n, n counting the openings in a row. Half-open: one request probes it, and what
// the end of that request's stream says decides (G1); a probe that has streamed for long decides before its
// end. Then a slow start: the target's weight ramps up, so that it is not flooded while its caches are cold.
// A target that asks for a pause (Retry-After) is held: not used either, but nothing is counted against it.
//
// Invariants. At most one probe runs. An attempt's outcome is counted once, by whoever owns its permit, and
// only while what it was begun under still lasts: late ends of old streams neither close nor open anything.
//
// Thread rule: look() from any thread, one relaxed load; all else under one lock of the owner.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "policy/failover/failure.hpp"

namespace weir::policy::failover {

inline constexpr std::int64_t k_never_ns = std::numeric_limits<std::int64_t>::max() / 4;

struct breaker_terms {
  int consecutive_max = 5;             // failures in a row that open it
  std::int32_t window_ended_min = 20;  // attempts that end within the window before their share says anything
  double window_share = 0.5;           // of failures among them, that opens it
  std::int64_t window_ns = 10'000'000'000;
  std::int64_t open_ns = 30'000'000'000;       // times the openings in a row
  std::int64_t open_max_ns = 300'000'000'000;  // and of a Retry-After that is believed
  double open_jitter = 0.1;                    // share by which it is shortened, at random
  std::int64_t slow_start_ns = 30'000'000'000;
  double overruled_weight = 0.02;                  // while it is open and used all the same (pool.hpp)
  double slow_start_weight = 0.1;                  // at its begin
  std::int64_t probe_settled_ns = 30'000'000'000;  // a probe that streams content for so long has succeeded
};

struct standing {
  bool usable = true;
  bool probe = false;        // usable for one request
  bool ejected = false;      // not usable, or only as a probe, because of failures: pool.hpp may overrule it
  double weight = 1;         // of its share of requests, (0, 1]
  std::int64_t from_ns = 0;  // not usable: from then on, or k_never_ns while a probe runs
};

// What an attempt was begun under. Every permit is handed back once, by breaker::ended().
struct permit {
  enum class use : std::uint8_t { normal, probe, overruled };
  std::uint64_t era = 0;
  use as = use::normal;
};

class breaker final {
 public:
  breaker(const breaker_terms& terms, std::uint64_t seed) noexcept : terms_(terms), seed_(seed) {}

  standing look(std::int64_t now_ns) const noexcept;

  // Begins an attempt: nothing if the target may not be used any more (look again, choose anew).
  // `overrule`: although it is open, because the pool has no better (pool.hpp).
  std::optional<permit> acquire(std::int64_t now_ns, bool overrule = false) noexcept;
  // The first content of the attempt came.
  void content(const permit& under, std::int64_t now_ns) noexcept;
  void ended(const permit& under, breaker_effect effect, std::int64_t now_ns) noexcept;
  // The target is not to be used for so long; open_max_ns at most.
  void hold(std::int64_t pause_ns, std::int64_t now_ns) noexcept;

  int openings() const noexcept { return openings_; }  // in a row

 private:
  enum class state : std::uint8_t {
    closed,   // usable from its time on; open() leaves it
    ramping,  // slow start, from its time on; becomes closed at its end
    open,     // until its time, then a probe may begin
    probing,  // until the probe ends, or its time comes
  };
  struct word {
    state is;
    std::int64_t time_ns;
  };
  static constexpr std::size_t k_window_slots = 10;
  struct tally {
    std::int32_t ended = 0;
    std::int32_t failed = 0;
  };

  static word unpack(std::uint64_t packed) noexcept;
  word now_is() const noexcept { return unpack(word_.load(std::memory_order_relaxed)); }
  void become(state is, std::int64_t time_ns) noexcept;
  void open(std::int64_t now_ns) noexcept;
  void close(std::int64_t now_ns) noexcept;
  void count(bool is_failure, std::int64_t now_ns) noexcept;

  const breaker_terms terms_;
  const std::uint64_t seed_;
  std::atomic<std::uint64_t> word_ = 0;  // of a word: its time * 4 + its state
  std::uint64_t era_ = 0;                // of the state; permits of an earlier one count no more
  int consecutive_ = 0;
  int openings_ = 0;
  std::int64_t opened_for_ns_ = 0;
  std::int64_t closed_at_ns_ = 0;
  std::array<tally, k_window_slots> window_;
  std::int64_t window_at_ = 0;  // slot since the clock's start
  std::uint64_t turns_ = 0;     // of the jitter
};

}  // namespace weir::policy::failover
