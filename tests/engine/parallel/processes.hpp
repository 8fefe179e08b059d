// Ranks as real processes, forked off the test, which must not have threads by then. A rank's checks throw;
// what it threw ends on standard error and in its exit code. One thread.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/parallel/shm_communicator.hpp"
#include "engine/parallel/tcp_communicator.hpp"

namespace weir::tests {

namespace parallel = engine::parallel;

constexpr auto k_ranks_patience = std::chrono::seconds(120);  // a hang fails the test

inline void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

// A name that no other test uses at the same time.
inline std::string group_name() {
  static int count = 0;
  return "weir-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++);
}

inline parallel::shm_options options_of(const std::string& name, int rank, int size) {
  parallel::shm_options out;
  out.rank = rank;
  out.size = size;
  out.name = name;
  out.build = "test";
  return out;
}

// Between a test and its children: they say when, it waits for them.
class signpost final {
 public:
  signpost() { REQUIRE(::pipe(ends_) == 0); }
  ~signpost() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  signpost(const signpost&) = delete;
  signpost& operator=(const signpost&) = delete;
  void set() const { expect(::write(ends_[1], "x", 1) == 1, "write"); }
  // For so many.
  void wait(int count = 1) const {
    for (char byte = 0; count > 0; --count) REQUIRE(::read(ends_[0], &byte, 1) == 1);
  }

 private:
  int ends_[2];
};

class rank_processes final {
 public:
  rank_processes() = default;
  ~rank_processes() {
    for (const pid_t pid : pids_) {
      if (pid > 0) ::kill(pid, SIGKILL), ::waitpid(pid, nullptr, 0);
    }
  }
  rank_processes(const rank_processes&) = delete;
  rank_processes& operator=(const rank_processes&) = delete;

  void start(const std::function<void()>& body) {
    std::fflush(nullptr);
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      int code = 0;
      try {
        body();
      } catch (const std::exception& fault) {
        std::fprintf(stderr, "rank in process %d: %s\n", static_cast<int>(::getpid()), fault.what());
        code = 1;
      }
      ::_exit(code);
    }
    pids_.push_back(pid);
  }
  void signal(int index, int number) { ::kill(pids_[static_cast<std::size_t>(index)], number); }

  // The exit code; -signal where one ended it.
  int wait_for(std::size_t index) {
    const auto until = std::chrono::steady_clock::now() + k_ranks_patience;
    int status = 0;
    pid_t ended = 0;
    while ((ended = ::waitpid(pids_[index], &status, WNOHANG)) == 0 &&
           std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    REQUIRE(ended == pids_[index]);
    pids_[index] = -1;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  // All, in the order of their starts.
  std::vector<int> wait() {
    std::vector<int> out;
    for (std::size_t i = 0; i < pids_.size(); ++i) out.push_back(wait_for(i));
    return out;
  }

 private:
  std::vector<pid_t> pids_;
};

using rank_body = std::function<void(parallel::communicator&)>;
using owning_body = std::function<void(std::unique_ptr<parallel::communicator>)>;

// How the ranks that are started from here on speak to each other.
enum class transport { shared_memory, tcp };
inline transport& the_transport() {
  static transport out = transport::shared_memory;
  return out;
}

// First line of a test case: runs it once for each.
#define WEIR_FOR_EACH_TRANSPORT()                                                                    \
  weir::tests::the_transport() =                                                                     \
      GENERATE(weir::tests::transport::shared_memory, weir::tests::transport::tcp);                  \
  const std::shared_ptr<void> back(                                                                  \
      nullptr, [](void*) { weir::tests::the_transport() = weir::tests::transport::shared_memory; }); \
  INFO((weir::tests::the_transport() == weir::tests::transport::tcp ? "over tcp" : "over shared memory"))

// One that is free now.
inline std::uint16_t free_port() {
  const auto gate = parallel::tcp_gate::open("127.0.0.1", 0);
  REQUIRE(gate);
  return gate->port();
}

inline engine::result<std::unique_ptr<parallel::communicator>> join_ranks(
    const std::string& name, std::uint16_t port, int rank, int size, std::chrono::milliseconds step_timeout) {
  if (the_transport() == transport::tcp) {
    parallel::tcp_options options{.rank = rank, .size = size, .port = port, .build = "test"};
    options.step_timeout = step_timeout;
    return parallel::join_by_tcp(options);
  }
  parallel::shm_options options = options_of(name, rank, size);
  options.step_timeout = step_timeout;
  return parallel::join_by_shared_memory(options);
}

// Starts a rank of its own process for each. What `body` refers to must live until they have ended.
inline void start_owning_ranks(rank_processes& processes, int size, const owning_body& body,
                               std::chrono::milliseconds step_timeout = std::chrono::seconds(60)) {
  const std::string name = group_name();
  const std::uint16_t port = the_transport() == transport::tcp ? free_port() : std::uint16_t{0};
  for (int rank = 0; rank < size; ++rank) {
    processes.start([&body, &name, port, rank, size, step_timeout] {
      auto joined = join_ranks(name, port, rank, size, step_timeout);
      expect(joined.has_value(), joined ? "" : joined.error().detail);
      body(std::move(*joined));
    });
  }
}

inline void start_ranks(rank_processes& processes, int size, const rank_body& body,
                        std::chrono::milliseconds step_timeout = std::chrono::seconds(60)) {
  start_owning_ranks(
      processes, size, [&body](std::unique_ptr<parallel::communicator> ranks) { body(*ranks); },
      step_timeout);
}

inline void run_ranks(int size, const rank_body& body) {
  rank_processes processes;
  start_ranks(processes, size, body);
  CHECK(processes.wait() == std::vector<int>(static_cast<std::size_t>(size), 0));
}

}  // namespace weir::tests
