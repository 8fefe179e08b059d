// Idle connections to HTTP targets, kept by the I/O thread that opened them: a service of its io_context.
//
// Invariants: an idle connection has no unread byte and is younger than k_idle_max, below the 5 s after which
// common servers close (uvicorn's default); one that has been closed, or has been sent a byte, is never
// handed out. Threads: the io_context's own.
#pragma once

#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "gateway/http/connection.hpp"
#include "gateway/upstream/origin.hpp"

namespace weir::gateway::upstream {

inline constexpr std::chrono::milliseconds k_idle_max{3'800};
inline constexpr std::chrono::milliseconds k_sweep_period{500};
static_assert(k_idle_max < std::chrono::seconds(4));
inline constexpr std::size_t k_idle_connections_max = 1024;  // per target and I/O thread

class client_pool final : public asio::execution_context::service {
 public:
  using key_type = client_pool;
  static asio::execution_context::id id;

  explicit client_pool(asio::execution_context& context);

  static client_pool& of(const io_executor& executor);

  // The connection used last, or null.
  std::shared_ptr<http::connection> take(const origin& target);

  // REQUIRES: the last exchange on it ended in order and nothing is unread.
  void give(std::shared_ptr<const origin> target, std::shared_ptr<http::connection> link);

 private:
  using clock = std::chrono::steady_clock;
  struct idle_connection {
    std::shared_ptr<http::connection> link;
    clock::time_point since;
  };
  struct shelf {
    std::shared_ptr<const origin> target;
    std::vector<idle_connection> idle;  // oldest first
  };

  void shutdown() noexcept override;
  void keep(std::shared_ptr<const origin> target, std::shared_ptr<http::connection> link);
  void sweep();
  void arm_sweep();

  std::unordered_map<std::uint64_t, shelf> shelves_;  // by the origin's id
  std::unique_ptr<io_timer> timer_;
  bool armed_ = false;
  bool closed_ = false;
};

}  // namespace weir::gateway::upstream
