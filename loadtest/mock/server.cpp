#include "loadtest/mock/server.hpp"

#include <fmt/format.h>
#include <malloc.h>

#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <numeric>
#include <optional>
#include <thread>

#include "loadtest/endpoint.hpp"
#include "loadtest/file_limit.hpp"
#include "loadtest/mock/kv_publisher.hpp"
#include "loadtest/mock/worker.hpp"

namespace weir::loadtest::mock {

namespace {

// Prompts of hundreds of KB come and go; taken from the system and given back each time they cost more in
// page faults than in all that is done with them.
constexpr int k_direct_from_bytes = 64 << 20;
constexpr int k_kept_freed_bytes = 256 << 20;

std::string url_of(const boost::asio::ip::tcp::endpoint& at) {
  const auto host = at.address().to_string();
  return fmt::format("http://{}:{}", at.address().is_v6() ? "[" + host + "]" : host, at.port());
}

void serve_at(const mock_options& options, const boost::asio::ip::tcp::endpoint& wanted) {
  all_counters all;
  for (int i = 0; i < options.threads; ++i) all.push_back(std::make_unique<counters>());
  std::optional<replica> behind;
  if (options.replica.is_on) behind.emplace(options.replica);
  auto* const shared = behind ? &*behind : nullptr;
  std::vector<std::unique_ptr<worker>> workers;
  workers.push_back(std::make_unique<worker>(options, all, shared, 0, wanted));
  const auto bound = workers[0]->local_endpoint();
  for (std::size_t i = 1; i < all.size(); ++i)
    workers.push_back(std::make_unique<worker>(options, all, shared, i, bound));
  boost::asio::signal_set signals(workers[0]->io(), SIGTERM, SIGINT);
  signals.async_wait([&workers](boost::system::error_code, int) {
    for (auto& one : workers) one->stop();
  });
  std::printf("listening on %s\n", url_of(bound).c_str());
  if (shared != nullptr && shared->publisher() != nullptr) {
    std::printf("kv events on %s\n", shared->publisher()->endpoint().c_str());
    std::printf("kv replay on %s\n", shared->publisher()->replay_endpoint().c_str());
  }
  std::fflush(stdout);
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < workers.size(); ++i)
    threads.emplace_back([one = workers[i].get()] { one->run(); });
  workers[0]->run();
}

}  // namespace

std::expected<void, std::string> serve(const mock_options& options) {
  const auto sum = [](double total, const fault_share& one) { return total + one.share; };
  if (std::accumulate(options.faults.begin(), options.faults.end(), 0.0, sum) > 1 + 1e-9)
    return std::unexpected("the shares of --fault sum to more than 1");
  const auto wanted = parse_endpoint(options.listen);
  if (!wanted) return std::unexpected(wanted.error());
  raise_file_limit();
  mallopt(M_MMAP_THRESHOLD, k_direct_from_bytes);
  mallopt(M_TRIM_THRESHOLD, k_kept_freed_bytes);
  try {
    serve_at(options, *wanted);
  } catch (const zmq::error_t& e) {
    return std::unexpected(fmt::format("{}, {}: {}", options.replica.events.endpoint,
                                       options.replica.events.replay_endpoint, e.what()));
  } catch (const boost::system::system_error& e) {
    return std::unexpected(fmt::format("{}: {}", options.listen, e.code().message()));
  }
  return {};
}

}  // namespace weir::loadtest::mock
