// The counters of one model's copies, resolved once so that a copy costs additions. Any thread.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weir::gateway::observe {

// Why a request that was chosen is not copied, or its copy not kept.
enum class shadow_drop : std::uint8_t {
  local_only,   // its key's requests never leave
  too_large,    // its body
  memory,       // all that copies may hold is held
  unanswered,   // the client left, or nobody answered or failed
  same_target,  // the shadow target itself has answered
  rate,         // so many in this second already
  busy,         // so many copies run already
  breaker,      // the target has failed lately
  stale,        // a reused connection had been closed: it is not sent again
  unsupported,  // the target's API cannot say it
  shutdown,     // cut, or not begun
  ledger,       // the pair was not taken
};
inline constexpr std::array<std::string_view, 12> k_shadow_drops{
    "local_only", "too_large", "memory", "unanswered",  "same_target", "rate",
    "busy",       "breaker",   "stale",  "unsupported", "shutdown",    "ledger"};

struct shadow_counters {
  prometheus::Counter* sent = nullptr;
  prometheus::Counter* pairs = nullptr;
  prometheus::Counter* usd = nullptr;  // what copies cost
  prometheus::Gauge* in_flight = nullptr;
  std::array<prometheus::Counter*, k_shadow_drops.size()> dropped{};

  void drop(shadow_drop why) const { dropped[static_cast<std::size_t>(why)]->Increment(); }
};

}  // namespace weir::gateway::observe
