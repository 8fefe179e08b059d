// Tells a target that hangs from one that works on a long prompt: nothing has been heard of it for a while
// although something is asked of it, and a probe (a request that any living server answers at once, on a
// connection of its own) is not answered either. One watch per target; whoever waits for it asks, one of them
// is told to probe for all.
//
// With the defaults a hanging target is known after 1.8 s, a partitioned one too: dialling is waiting.
// Thread rule: any thread, no locks. Times are those of a monotonic clock of the caller, in ns, > 0.
#pragma once

#include <atomic>
#include <cstdint>

namespace weir::policy::failover {

struct freeze_terms {
  std::int64_t silent_ns = 1'000'000'000;  // without a byte before a probe is sent
  std::int64_t probe_ns = 800'000'000;     // by when its answer is due
};

enum class freeze_step : std::uint8_t {
  wait,    // ask again at `at_ns`
  probe,   // the caller sends the probe, and asks again at `at_ns`
  frozen,  // the attempt should be given up
};

struct freeze_verdict {
  freeze_step what = freeze_step::wait;
  std::int64_t at_ns = 0;
};

class freeze_watch final {
 public:
  explicit freeze_watch(const freeze_terms& terms) noexcept : terms_(terms) {}

  // A byte came from the target: of any attempt, or a probe's answer.
  void heard(std::int64_t now_ns) noexcept;
  // By one that has waited for the target since then: since its start, or its own last byte.
  freeze_verdict check(std::int64_t since_ns, std::int64_t now_ns) noexcept;
  // The probe could not be made: it says nothing. Another is told to probe.
  void probe_given_up() noexcept { probed_ns_.store(0, std::memory_order_relaxed); }

 private:
  const freeze_terms terms_;
  std::atomic<std::int64_t> heard_ns_ = 0;
  std::atomic<std::int64_t> probed_ns_ = 0;  // when the last probe was sent
};

}  // namespace weir::policy::failover
