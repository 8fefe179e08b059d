// One proxied connection: two directions that pass bytes on with delays, in pieces, until an act of its plan
// ends or bends them. Coroutines on one io_context thread; they own the session.
#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>

#include "loadtest/chaos/plan.hpp"

namespace weir::loadtest::chaos {

// What all sessions share.
struct proxy_state {
  explicit proxy_state(boost::asio::io_context& io, const chaos_options& given)
      : options(given), thaw(io, boost::asio::steady_timer::time_point::max()), random(given.seed) {}

  const chaos_options& options;
  boost::asio::steady_timer thaw;  // cancelled when forwarding resumes
  bool frozen = false;
  std::mt19937_64 random;
  std::uint64_t connections = 0;
  std::uint64_t unreachable = 0;  // connections for which the server could not be reached
  std::map<act, std::uint64_t> done;
  std::uint64_t ends_extended = 0;
};

class session final : public std::enable_shared_from_this<session> {
 public:
  session(proxy_state& state, boost::asio::ip::tcp::socket client, std::uint64_t number);

  // Connects to the server and passes bytes both ways until both directions ended.
  boost::asio::awaitable<void> run(boost::asio::ip::tcp::endpoint server);

 private:
  using socket = boost::asio::ip::tcp::socket;
  using clock = std::chrono::steady_clock;
  static constexpr std::size_t k_block_bytes = 16 << 10;

  struct lane {
    direction to;
    socket& from;
    socket& into;
    boost::asio::steady_timer pause;
    std::uint64_t passed = 0;
    std::array<char, k_block_bytes> block{};
    clock::time_point rate_due{};
    boost::system::error_code ignored{};
    bool dropped = false;  // what still comes is read and forgotten
  };

  boost::asio::awaitable<void> pump(lane& l);
  boost::asio::awaitable<void> pass(lane& l, char* bytes, std::size_t size);
  boost::asio::awaitable<bool> send(lane& l, const char* bytes, std::size_t size);
  boost::asio::awaitable<void> perform(lane& l, planned_act what, char* next);
  boost::asio::awaitable<void> hold(lane& l);  // delay and jitter
  boost::asio::awaitable<void> while_frozen();
  bool due(const lane& l, bool byte_at_hand) const;
  void close(bool reset);
  void log(const std::string& what) const;
  void spawn(lane& l);

  proxy_state& state_;
  std::uint64_t number_;
  socket client_;
  socket server_;
  connection_plan plan_;
  lane to_client_;
  lane to_server_;
  bool open_ = true;
};

}  // namespace weir::loadtest::chaos
