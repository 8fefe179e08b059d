// What all sessions of one listener on one I/O thread share.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <string_view>

#include "gateway/http/byte_budget.hpp"
#include "gateway/http/exchange.hpp"
#include "gateway/http/limits.hpp"

namespace weir::gateway::http {

// Counters of the edge itself, for metrics: what no handler sees. Any thread.
struct edge_counters {
  std::atomic<std::uint64_t> connections_open{0};  // now
  std::atomic<std::uint64_t> accepted{0};          // connections
  std::atomic<std::uint64_t> refused{0};           // connections over the cap
  std::atomic<std::uint64_t> accept_failures{0};   // out of descriptors and the like
  std::atomic<std::uint64_t> handshake_failures{0};
  std::atomic<std::uint64_t> rejected_heads{0};  // answered 4xx/5xx by the session
  std::atomic<std::uint64_t> head_timeouts{0};
  std::atomic<std::uint64_t> disconnects{0};     // while a handler ran
  std::atomic<std::uint64_t> handler_faults{0};  // exceptions
};

using fault_reporter = std::function<void(std::string_view what)>;  // where and what, for a log

// Date and identifiers of one I/O thread. One thread.
class thread_stamps final {
 public:
  thread_stamps();
  std::string_view date();   // of the current second
  std::string request_id();  // 32 random hexadecimal digits

 private:
  std::mt19937_64 random_;
  std::time_t second_ = 0;
  std::string date_;
};

struct session_context {
  dispatcher& handler;
  const http_settings& settings;
  byte_budget& budget;
  edge_counters& counters;
  thread_stamps& stamps;
  const fault_reporter& report;  // callable from any thread
};

}  // namespace weir::gateway::http
