// One thread of the mock: its io_context, its acceptor on the shared port, and what its connections share.
// Everything but stop() belongs to the thread that runs it.
#pragma once

#include <simdjson.h>

#include <array>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <list>
#include <random>

#include "loadtest/mock/counters.hpp"
#include "loadtest/mock/options.hpp"

namespace weir::loadtest::mock {

using executor = boost::asio::io_context::executor_type;
using tcp_socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, executor>;
using tcp_acceptor = boost::asio::basic_socket_acceptor<boost::asio::ip::tcp, executor>;
using clock = std::chrono::steady_clock;
using timer = boost::asio::basic_waitable_timer<clock, boost::asio::wait_traits<clock>, executor>;

inline constexpr std::size_t k_scratch_bytes = 128 << 10;  // one read

class connection;

class worker final {
 public:
  // Listens at `endpoint`, whose port may be taken by other workers already.
  // `behind` may be null; it outlives the worker.
  worker(const mock_options& options, const all_counters& all, replica* behind, std::size_t index,
         const boost::asio::ip::tcp::endpoint& endpoint);

  boost::asio::ip::tcp::endpoint local_endpoint() const { return acceptor_.local_endpoint(); }
  boost::asio::io_context& io() noexcept { return io_; }
  void run();
  void stop() { io_.stop(); }  // any thread

  const mock_options& options() const noexcept { return options_; }
  counters& count() noexcept { return *all_[index_]; }
  std::string metrics() const { return metrics_text(all_, options_, behind_); }
  std::string loads() const { return loads_json(all_, options_, behind_); }
  replica* behind() const noexcept { return behind_; }  // null: a mock of set times
  double token_ms() const { return options_.itl_ms + (behind_ != nullptr ? behind_->token_ms() : 0); }
  simdjson::ondemand::parser& parser() noexcept { return parser_; }
  std::array<char, k_scratch_bytes>& scratch() noexcept { return scratch_; }

  fault draw_fault() { return mock::draw_fault(options_.faults, random_); }
  std::uint64_t answer_number() noexcept;     // unlike any other of this process
  clock::duration wait(double milliseconds);  // with jitter

  // The keep-alive clock of idle connections, one sweep for all. A place is kept from the first call to
  // leave.
  using idle_place = std::list<connection*>::iterator;
  idle_place enter(connection& idle) { return idle_.insert(idle_.end(), &idle); }
  void touch(idle_place place) { idle_.splice(idle_.end(), idle_, place); }
  void leave(idle_place place) { idle_.erase(place); }

 private:
  void accept();
  void sweep();

  const mock_options& options_;
  const all_counters& all_;
  replica* behind_;
  std::size_t index_;
  std::mt19937_64 random_;
  std::uint64_t answers_ = 0;
  simdjson::ondemand::parser parser_;
  std::array<char, k_scratch_bytes> scratch_{};
  std::list<connection*> idle_;  // by the time of their last answer
  boost::asio::io_context io_{1};
  tcp_acceptor acceptor_{io_.get_executor()};
  timer accept_pause_{io_.get_executor()};
  timer sweep_timer_{io_.get_executor()};
};

}  // namespace weir::loadtest::mock
