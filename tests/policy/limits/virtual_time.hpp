// Time that passes only when the next event comes. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace weir::policy::limits {

inline constexpr std::int64_t k_ms = 1'000'000;
inline constexpr std::int64_t k_s = 1'000 * k_ms;
inline constexpr std::int64_t k_lease = 2 * k_s;

class timeline {
 public:
  std::int64_t now() const { return now_; }
  void in(std::int64_t after_ns, std::function<void()> what) {
    events_.emplace(now_ + after_ns, std::move(what));
  }
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

}  // namespace weir::policy::limits
