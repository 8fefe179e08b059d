#include "loadtest/mock/worker.hpp"

#include <sys/socket.h>

#include "loadtest/mock/connection.hpp"

namespace weir::loadtest::mock {

namespace {

namespace asio = boost::asio;
using reuse_port = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;

constexpr int k_backlog = 4096;
constexpr std::chrono::milliseconds k_sweep_period{50};
constexpr std::chrono::milliseconds k_accept_pause{20};  // when file descriptors ran out

std::uint64_t mix(std::uint64_t x) {  // splitmix64: one to one
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

worker::worker(const mock_options& options, const all_counters& all, replica* behind, std::size_t index,
               const asio::ip::tcp::endpoint& endpoint)
    : options_(options), all_(all), behind_(behind), index_(index), random_(options.seed + index) {
  acceptor_.open(endpoint.protocol());
  acceptor_.set_option(asio::socket_base::reuse_address(true));
  if (options.threads > 1) acceptor_.set_option(reuse_port(true));
  acceptor_.bind(endpoint);
  acceptor_.listen(k_backlog);
}

void worker::run() {
  accept();
  sweep();
  io_.run();
}

std::uint64_t worker::answer_number() noexcept {
  constexpr int k_index_shift = 48;
  return mix(mix(options_.seed) + (static_cast<std::uint64_t>(index_) << k_index_shift) + ++answers_);
}

clock::duration worker::wait(double milliseconds) {
  if (options_.jitter > 0) {
    std::uniform_real_distribution<double> factor(1 - options_.jitter, 1 + options_.jitter);
    milliseconds *= factor(random_);
  }
  return std::chrono::duration_cast<clock::duration>(std::chrono::duration<double, std::milli>(milliseconds));
}

void worker::accept() {
  acceptor_.async_accept([this](boost::system::error_code error, tcp_socket socket) {
    if (!error) {
      std::make_shared<connection>(*this, std::move(socket))->start();
      accept();
      return;
    }
    accept_pause_.expires_after(k_accept_pause);
    accept_pause_.async_wait([this](boost::system::error_code) { accept(); });
  });
}

void worker::sweep() {
  const auto now = clock::now();
  const std::chrono::milliseconds limit(options_.keep_alive_ms);
  while (!idle_.empty() && idle_.front()->last_answer() + limit <= now) idle_.front()->end_idle(now);
  sweep_timer_.expires_after(k_sweep_period);
  sweep_timer_.async_wait([this](boost::system::error_code) { sweep(); });
}

}  // namespace weir::loadtest::mock
