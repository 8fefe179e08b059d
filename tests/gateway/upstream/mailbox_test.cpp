#include "gateway/upstream/mailbox.hpp"

#include <boost/asio/cancellation_signal.hpp>
#include <catch2/catch.hpp>
#include <thread>

#include "gateway/task_group.hpp"

namespace weir::gateway::upstream {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::minutes k_far{5};  // no test waits for it
constexpr int k_mail_count = 20'000;

struct run_state {
  std::vector<wait_outcome> outcomes;
  std::vector<int> tokens;
};

task<void> wait_once(std::shared_ptr<mailbox> box, steady_clock::time_point deadline, run_state& state) {
  co_await accept_cancellation();
  const auto outcome = co_await box->wait(deadline);
  state.outcomes.push_back(outcome);
}

task<void> collect(std::shared_ptr<mailbox> box, std::size_t count, run_state& state) {
  std::vector<mail> mails;
  while (state.tokens.size() < count) {
    const auto outcome = co_await box->wait(steady_clock::now() + k_far);
    state.outcomes.push_back(outcome);
    if (outcome != wait_outcome::ready) co_return;
    box->drain(mails);
    for (const auto& m : mails) state.tokens.push_back(std::get<engine::token_event>(m.what).token);
  }
}

void rethrow(std::exception_ptr fault) {
  std::rethrow_exception(fault);
}

TEST_CASE("mail that is there already needs no waiting") {
  asio::io_context io(1);
  auto box = std::make_shared<mailbox>(io.get_executor());
  box->push({0, engine::token_event{.token = 7}});
  run_state state;
  task_group tasks(io.get_executor(), rethrow);
  tasks.spawn(collect(box, 1, state));
  io.run();
  CHECK(state.tokens == std::vector{7});
}

TEST_CASE("a deadline that has passed times out") {
  asio::io_context io(1);
  auto box = std::make_shared<mailbox>(io.get_executor());
  run_state state;
  task_group tasks(io.get_executor(), rethrow);
  tasks.spawn(wait_once(box, steady_clock::now() + std::chrono::milliseconds(5), state));
  io.run();
  CHECK(state.outcomes == std::vector{wait_outcome::timed_out});
}

TEST_CASE("cancelling the waiter ends the wait at once") {
  asio::io_context io(1);
  auto box = std::make_shared<mailbox>(io.get_executor());
  run_state state;
  task_group tasks(io.get_executor(), rethrow);
  tasks.spawn(wait_once(box, steady_clock::now() + k_far, state));
  asio::post(io, [&tasks] { tasks.cancel_all(); });
  io.run();
  CHECK(state.outcomes == std::vector{wait_outcome::cancelled});
}

TEST_CASE("a closed mailbox outlives its io_context and drops what comes") {
  std::shared_ptr<mailbox> box;
  {
    asio::io_context io(1);
    box = std::make_shared<mailbox>(io.get_executor());
    box->push({0, engine::token_event{.token = 1}});
    box->close();
  }
  std::jthread([box] { box->push({0, engine::token_event{.token = 2}}); }).join();
  std::vector<mail> mails;
  box->drain(mails);
  CHECK(mails.empty());
}

TEST_CASE("everything pushed from another thread arrives once and in order") {
  asio::io_context io(1);
  auto box = std::make_shared<mailbox>(io.get_executor());
  run_state state;
  task_group tasks(io.get_executor(), rethrow);
  tasks.spawn(collect(box, k_mail_count, state));
  std::jthread worker([box] {
    for (int i = 0; i < k_mail_count; ++i) box->push({0, engine::token_event{.token = i}});
  });
  io.run();
  REQUIRE(state.tokens.size() == k_mail_count);
  for (int i = 0; i < k_mail_count; ++i) {
    if (state.tokens[static_cast<std::size_t>(i)] != i) FAIL("out of order at " << i);
  }
}

}  // namespace
}  // namespace weir::gateway::upstream
