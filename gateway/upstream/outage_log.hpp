// What the log is told of a target that fails again and again: its first failure and its recovery, and in
// between a line now and then with the number of failures that had none. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace weir::gateway::upstream {

// At most one line of failure in this time, however often a target goes and comes.
inline constexpr std::chrono::seconds k_outage_pause{30};

class outage_log final {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  // A line is due now: the number of failures since the last one that had none.
  std::optional<std::uint64_t> failed(time_point now) noexcept;

  // It is over and somebody was told of it: the failures that had no line.
  std::optional<std::uint64_t> recovered() noexcept;

 private:
  std::atomic<std::int64_t> next_ns_ = INT64_MIN;  // no line before this
  std::atomic<std::uint64_t> unsaid_ = 0;
  std::atomic<bool> said_ = false;  // since the last recovery
};

}  // namespace weir::gateway::upstream
