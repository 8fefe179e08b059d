// Every operation between processes, over sizes around the chunks in which it goes.
#include <cstring>
#include <numeric>

#include "tests/engine/parallel/processes.hpp"

namespace {

using namespace weir::tests;
using bytes = std::vector<std::byte>;

constexpr auto k_chunk = static_cast<std::int64_t>(parallel::k_chunk_bytes);

// Sums of these depend on the order in which they are taken.
template <class T>
T value_of(int rank, std::size_t i) {
  const auto bits =
      (static_cast<std::uint32_t>(rank) * 2654435761U) ^ (static_cast<std::uint32_t>(i) * 40503U);
  return static_cast<T>(bits % 100003U) / static_cast<T>(i % 7 == 0 ? 3e-4 : 7919.0) - static_cast<T>(5);
}

template <class T>
void check_sum(parallel::communicator& ranks, std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of<T>(ranks.rank(), i);
  ranks.all_reduce(std::span(values));
  for (std::size_t i = 0; i < count; ++i) {
    T expected = value_of<T>(0, i);
    for (int rank = 1; rank < ranks.size(); ++rank) expected += value_of<T>(rank, i);
    expect(std::memcmp(&expected, &values[i], sizeof(T)) == 0,
           "sum of " + std::to_string(count) + " differs at " + std::to_string(i));
  }
}

std::byte content(int from, int to, std::size_t i) {
  return static_cast<std::byte>(
      (static_cast<std::size_t>(from) * 31 + static_cast<std::size_t>(to) * 7 + i * 13) % 251);
}

void append_content(bytes& all, int from, int to, std::int64_t count) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) all.push_back(content(from, to, i));
}

void check_gather(parallel::communicator& ranks, std::int64_t unit) {
  std::vector<std::int64_t> counts;
  bytes expected;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    counts.push_back(rank % 3 == 1 ? 0 : unit * (rank + 1) + rank);
    append_content(expected, rank, 0, counts.back());
  }
  bytes mine;
  append_content(mine, ranks.rank(), 0, counts[static_cast<std::size_t>(ranks.rank())]);
  bytes all(expected.size());
  ranks.all_gather(mine.data(), all.data(), counts);
  expect(all == expected, "gathered parts of unit " + std::to_string(unit));
}

std::int64_t count_between(int from, int to, std::int64_t unit) {
  return (from + 2 * to) % 3 == 2 ? 0 : unit * (1 + (from + to) % 2) + from;
}

void check_all_to_all(parallel::communicator& ranks, std::int64_t unit) {
  const int me = ranks.rank();
  std::vector<std::int64_t> out_counts, in_counts;
  bytes out, expected;
  for (int peer = 0; peer < ranks.size(); ++peer) {
    out_counts.push_back(count_between(me, peer, unit));
    append_content(out, me, peer, out_counts.back());
    in_counts.push_back(count_between(peer, me, unit));
    append_content(expected, peer, me, in_counts.back());
  }
  bytes in(expected.size());
  ranks.all_to_all(out.data(), out_counts, in.data(), in_counts);
  expect(in == expected, "exchanged parts of unit " + std::to_string(unit));
}

void check_broadcast(parallel::communicator& ranks, std::int64_t size) {
  bytes expected;
  append_content(expected, 3, 1, size);
  bytes message = ranks.rank() == 0 ? expected : bytes(5);
  ranks.broadcast(message);
  expect(message == expected, "a message of " + std::to_string(size));
}

void check_exchange(parallel::communicator& ranks, std::int64_t size, parallel::patience how) {
  bytes mine, expected;
  append_content(mine, ranks.rank(), 2, size);
  for (int rank = 0; rank < ranks.size(); ++rank) append_content(expected, rank, 2, size);
  bytes all(expected.size());
  ranks.exchange(mine, all, how);
  expect(all == expected, "an exchange of " + std::to_string(size));
}

}  // namespace

TEST_CASE("every operation gives all ranks what it says", "[parallel]") {
  WEIR_FOR_EACH_TRANSPORT();
  for (int size = 1; size <= 5; ++size) {
    INFO(size << " ranks");
    run_ranks(size, [](parallel::communicator& ranks) {
      constexpr std::size_t k_floats = parallel::k_chunk_bytes / sizeof(float);
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, k_floats / 2 - 1,
                                      k_floats / 2, k_floats - 1, k_floats, k_floats + 1, 3 * k_floats + 5}) {
        check_sum<float>(ranks, count);
        check_sum<double>(ranks, count);
      }
      for (const std::int64_t unit : {std::int64_t{0}, std::int64_t{1}, k_chunk / 3, k_chunk, k_chunk + 1}) {
        check_gather(ranks, unit);
        check_all_to_all(ranks, unit);
      }
      for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, k_chunk - 9, k_chunk - 8,
                                       k_chunk - 7, k_chunk, 3 * k_chunk + 1}) {
        check_broadcast(ranks, bytes);
      }
      check_exchange(ranks, 0, parallel::patience::step);
      check_exchange(ranks, 8, parallel::patience::idle);
      ranks.check();
      check_exchange(ranks, parallel::k_exchange_bytes_max, parallel::patience::step);
    });
  }
}

TEST_CASE("a message beyond the limit is refused before anybody hears of it", "[parallel]") {
  WEIR_FOR_EACH_TRANSPORT();
  run_ranks(2, [](parallel::communicator& ranks) {
    if (ranks.rank() == 0) {
      bytes message(parallel::k_message_bytes_max + 1);
      bool refused = false;
      try {
        ranks.broadcast(message);
      } catch (const std::length_error&) {
        refused = true;
      }
      expect(refused, "a long message");
    }
    check_broadcast(ranks, 10);
  });
}

TEST_CASE("only ranks that belong together come together", "[parallel]") {
  const std::string name = group_name();
  const auto refused = [&name](parallel::shm_options options, const char* why) {
    const auto joined = parallel::join_by_shared_memory(options);
    expect(!joined, "joined");
    expect(joined.error().detail.find(why) != std::string::npos, joined.error().detail);
  };
  rank_processes processes;
  processes.start(
      [&] { expect(parallel::join_by_shared_memory(options_of(name, 0, 3)).has_value(), "rank 0"); });
  processes.start([&] {
    parallel::shm_options other = options_of(name, 1, 2);
    refused(other, "rank 0 was started with 3 ranks, rank 1 with 2");
    other = options_of(name, 1, 3);
    other.build = "another";
    refused(other, "rank 0 runs another build (test) than rank 1 (another)");
    refused(options_of(name, 0, 3), "choose another MASTER_PORT");
    refused(
        [&] {
          parallel::shm_options none = options_of(name + "-none", 1, 3);
          none.join_timeout = std::chrono::milliseconds(30);
          return none;
        }(),
        "rank 0 is not on this machine");
    // Rank 2 comes once rank 1 is there, and a second rank 1 with it.
    auto second = parallel::shm_region::open(options_of(name, 1, 3));
    expect(second.has_value(), "rank 1");
    refused(options_of(name, 1, 3), "there is a rank 1 already");
  });
  CHECK(processes.wait_for(1) == 0);  // rank 0 waits on, for a rank 2
  ::unlink(("/dev/shm/" + name).c_str());
}

TEST_CASE("what a killed run left behind is not joined", "[parallel]") {
  const std::string name = group_name();
  const std::string path = "/dev/shm/" + name;
  {
    rank_processes killed;
    killed.start([&] { parallel::join_by_shared_memory(options_of(name, 0, 2)); });
    while (::access(path.c_str(), F_OK) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    killed.signal(0, SIGKILL);
    CHECK(killed.wait() == std::vector<int>{-SIGKILL});
  }
  REQUIRE(::access(path.c_str(), F_OK) == 0);
  rank_processes processes;
  const auto rank = [&name](int which) {
    auto joined = parallel::join_by_shared_memory(options_of(name, which, 2));
    expect(joined.has_value(), joined ? "" : joined.error().detail);
    check_sum<float>(**joined, 100);
  };
  processes.start([&] { rank(1); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  processes.start([&] { rank(0); });
  CHECK(processes.wait() == std::vector<int>{0, 0});
  CHECK(::access(path.c_str(), F_OK) != 0);
}

TEST_CASE("callers that say nothing, or something else, keep rank 0 no longer than its deadline",
          "[parallel]") {
  using clock = std::chrono::steady_clock;
  const std::uint16_t port = free_port();
  rank_processes processes;
  processes.start([port] {
    parallel::tcp_options options{.rank = 0, .size = 2, .port = port, .build = "test"};
    options.join_timeout = std::chrono::seconds(2);
    const auto begun = clock::now();
    const auto joined = parallel::join_by_tcp(options);
    expect(!joined, "joined with nobody");
    expect(joined.error().detail.find("rank 1 did not come") != std::string::npos, joined.error().detail);
    expect(clock::now() - begun < std::chrono::seconds(20), "beyond the deadline");
  });
  std::vector<parallel::tcp_link> callers;
  for (int i = 0; i < 40; ++i) {
    auto link = parallel::tcp_link::dial("127.0.0.1", port, clock::now() + std::chrono::seconds(20));
    if (!link) break;  // it is over
    const std::string other = "GET / HTTP/1.1\r\n\r\n";
    if (i % 2 == 0) static_cast<void>(link->send({.kind = 1}, std::as_bytes(std::span(other)), clock::now()));
    callers.push_back(std::move(*link));
  }
  CHECK(processes.wait() == std::vector<int>{0});
}

TEST_CASE("a rank that ends before all have come may be started again", "[parallel]") {
  const std::uint16_t port = free_port();
  const auto join = [port](int rank) {
    parallel::tcp_options options{.rank = rank, .size = 3, .port = port, .build = "test"};
    options.join_timeout = std::chrono::seconds(30);
    return parallel::join_by_tcp(options);
  };
  rank_processes processes;
  processes.start([&join] { expect(join(0).has_value(), "rank 0"); });
  processes.start([&join] { static_cast<void>(join(1)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  processes.signal(1, SIGKILL);
  CHECK(processes.wait_for(1) == -SIGKILL);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  processes.start([&join] { expect(join(1).has_value(), "rank 1, again"); });
  processes.start([&join] { expect(join(2).has_value(), "rank 2"); });
  for (const std::size_t one : {0, 2, 3}) CHECK(processes.wait_for(one) == 0);
}
