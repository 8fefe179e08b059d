// The addresses of the host names that targets are reached by, looked up again and again away from the I/O
// threads. Requests never wait for a lookup: they use the last good answer, or learn why there is none.
//
// A lookup that hangs holds one of k_lookup_threads_max threads and nothing else. Those threads are never
// joined, since getaddrinfo cannot be cancelled: they own what they touch. Any thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace weir::gateway::upstream {

inline constexpr std::size_t k_lookup_threads_max = 32;
inline constexpr std::chrono::seconds k_lookup_period{30};  // a changed record is followed within this time
inline constexpr std::chrono::seconds k_lookup_retry{5};    // after a failure
inline constexpr std::size_t k_addresses_max = 64;          // of one name

using address_list = std::vector<boost::asio::ip::tcp::endpoint>;

// One name's addresses.
class host_addresses final {
 public:
  host_addresses(std::string host, std::uint16_t port) : host_(std::move(host)), port_(port) {}

  // Null before the first good lookup.
  std::shared_ptr<const address_list> get() const;
  std::string failure() const;  // of the last lookup; empty after a good one

  // Waits for the end of the first lookup.
  void wait_looked_up(std::chrono::steady_clock::time_point deadline) const;

  void look_up();  // blocks
  // The outcome of a lookup: addresses, or null and why.
  void set(std::shared_ptr<const address_list> addresses, std::string failure);

 private:
  const std::string host_;
  const std::uint16_t port_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::shared_ptr<const address_list> addresses_;  // under mutex_
  std::string failure_;                            // under mutex_
  bool looked_up_ = false;                         // under mutex_
};

class resolver final {
 public:
  resolver();
  ~resolver();  // does not wait for running lookups
  resolver(const resolver&) = delete;
  resolver& operator=(const resolver&) = delete;

  // Follows the name for as long as the result is held. A numeric address is known at once and never looked
  // up again. One that is followed already is shared, with what is known of it.
  std::shared_ptr<const host_addresses> follow(const std::string& host, std::uint16_t port);

 private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace weir::gateway::upstream
