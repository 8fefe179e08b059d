// A rank that ends, stops or goes astray, wherever it was: all others throw at once, name it, and go on
// throwing.
#include <vector>

#include "tests/engine/parallel/processes.hpp"

namespace {

using namespace weir::tests;

void sum(parallel::communicator& ranks) {
  std::vector<float> values(100'000, 1.0F);
  ranks.all_reduce(std::span(values));
}

// Runs until it throws, checks whom it names, and that the next operations throw the same.
void expect_lost(parallel::communicator& ranks, int victim, const char* why,
                 const std::function<void()>& body) {
  for (int i = 0; i < 4; ++i) {
    try {
      body();
    } catch (const parallel::rank_lost& lost) {
      expect(lost.rank() == victim, std::string("named another: ") + lost.what());
      expect(std::string(lost.what()).find(why) != std::string::npos, lost.what());
      continue;
    }
    throw std::runtime_error("rank " + std::to_string(ranks.rank()) + " went on");
  }
}

std::vector<int> expected_codes(int size, int victim, int code) {
  std::vector<int> out(static_cast<std::size_t>(size), 0);
  out[static_cast<std::size_t>(victim)] = code;
  return out;
}

// Each rank in turn is killed while all are at `body`, which does not end by itself.
void kill_each_amid(int ranks_count, const std::function<void(parallel::communicator&)>& body) {
  for (int victim = 0; victim < ranks_count; ++victim) {
    INFO("victim " << victim);
    signpost there;
    rank_processes processes;
    start_ranks(processes, ranks_count, [&](parallel::communicator& ranks) {
      there.set();
      expect_lost(ranks, victim, "its process ended", [&] { body(ranks); });
    });
    there.wait(ranks_count);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // so that, mostly, they are well under way
    processes.signal(victim, SIGKILL);
    CHECK(processes.wait() == expected_codes(ranks_count, victim, -SIGKILL));
  }
}

}  // namespace

TEST_CASE("a rank that is killed before an operation is named by all others", "[parallel]") {
  WEIR_FOR_EACH_TRANSPORT();
  constexpr int k_ranks = 3;
  for (int victim = 0; victim < k_ranks; ++victim) {
    INFO("victim " << victim);
    rank_processes processes;
    start_ranks(processes, k_ranks, [victim](parallel::communicator& ranks) {
      sum(ranks);
      if (ranks.rank() == victim) ::raise(SIGKILL);
      expect_lost(ranks, victim, "its process ended", [&] { sum(ranks); });
    });
    CHECK(processes.wait() == expected_codes(k_ranks, victim, -SIGKILL));
  }
}

TEST_CASE("a rank that is killed amid operations is named by all others", "[parallel]") {
  WEIR_FOR_EACH_TRANSPORT();
  kill_each_amid(4, [](parallel::communicator& ranks) {
    for (;;) sum(ranks);
  });
}

TEST_CASE("a rank that is killed while all wait for work is named by all others", "[parallel]") {
  WEIR_FOR_EACH_TRANSPORT();
  kill_each_amid(3, [](parallel::communicator& ranks) {
    std::vector<std::byte> message;
    if (ranks.rank() != 0) ranks.broadcast(message);
    for (;;) {
      ranks.check();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
}

TEST_CASE("a rank that stands still is lost at the deadline, and hears of it", "[parallel]") {
  WEIR_FOR_EACH_TRANSPORT();
  constexpr int k_ranks = 3;
  constexpr int k_victim = 1;
  rank_processes processes;
  start_ranks(
      processes, k_ranks,
      [](parallel::communicator& ranks) {
        expect_lost(ranks, k_victim, "not there in time", [&] {
          for (;;) {
            sum(ranks);
            if (ranks.rank() == k_victim) ::raise(SIGSTOP);
          }
        });
      },
      std::chrono::seconds(5));
  CHECK(processes.wait_for(0) == 0);
  CHECK(processes.wait_for(2) == 0);
  processes.signal(k_victim, SIGCONT);
  CHECK(processes.wait_for(k_victim) == 0);
}

TEST_CASE("a rank that is at another operation is named", "[parallel]") {
  WEIR_FOR_EACH_TRANSPORT();
  rank_processes processes;
  start_ranks(processes, 2, [](parallel::communicator& ranks) {
    std::vector<float> values(ranks.rank() == 0 ? 10 : 11);
    bool threw = false;
    try {
      ranks.all_reduce(std::span(values));
    } catch (const parallel::rank_lost& lost) {
      threw = std::string(lost.what()).find("at another operation") != std::string::npos;
    }
    expect(threw, "went on");
  });
  CHECK(processes.wait() == std::vector<int>{0, 0});
}

TEST_CASE("a rank that gives up, or leaves, is lost to the others", "[parallel]") {
  WEIR_FOR_EACH_TRANSPORT();
  for (const bool in_words : {true, false}) {
    rank_processes processes;
    start_ranks(processes, 3, [in_words](parallel::communicator& ranks) {
      sum(ranks);
      if (ranks.rank() == 2) {
        if (in_words) ranks.abandon();
        return;
      }
      expect_lost(ranks, 2, in_words ? "it gave up" : "its process ended", [&] { sum(ranks); });
    });
    CHECK(processes.wait() == std::vector<int>{0, 0, 0});
  }
}
