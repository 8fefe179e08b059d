// The counters of one HTTP target, resolved once so that a request costs an addition. Any thread.
#pragma once

#include <prometheus/counter.h>

#include <array>
#include <cstddef>
#include <string_view>

namespace weir::gateway::observe {

// How one attempt at a target ended. Only broken, connect_failed, server_error and timeout speak against the
// target's health.
enum class attempt_outcome : std::size_t {
  ok,
  client_error,    // a status 4xx
  server_error,    // a status 5xx, or one that no target should send
  connect_failed,  // name, connection or TLS
  broken,          // the reply broke HTTP or the event stream, or ended early
  timeout,         // of the reply, its first content or the next
  cancelled,       // the client left
};
inline constexpr std::array<std::string_view, 7> k_attempt_outcomes{
    "ok", "client_error", "server_error", "connect_failed", "broken", "timeout", "cancelled"};

struct upstream_counters {
  std::array<prometheus::Counter*, k_attempt_outcomes.size()> attempts{};
  prometheus::Counter* connections_new = nullptr;
  prometheus::Counter* connections_reused = nullptr;
  prometheus::Counter* retries = nullptr;

  void count(attempt_outcome outcome) const { attempts[static_cast<std::size_t>(outcome)]->Increment(); }
};

}  // namespace weir::gateway::observe
