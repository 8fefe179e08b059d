#include "gateway/task_group.hpp"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace weir::gateway {
namespace {

task<void> wait_long(bool& unwound) {
  co_await accept_cancellation();
  struct guard {
    bool& flag;
    ~guard() { flag = true; }
  } leaving{unwound};
  io_timer timer(co_await asio::this_coro::executor, std::chrono::hours(1));
  co_await timer.async_wait(use_task);
}

task<void> fail_with(std::string what) {
  throw std::runtime_error(what);
  co_return;
}

task<bool> after(std::chrono::milliseconds wait, bool decides, bool& unwound) {
  struct guard {
    bool& flag;
    ~guard() { flag = true; }
  } leaving{unwound};
  io_timer timer(co_await asio::this_coro::executor, wait);
  co_await timer.async_wait(use_task);
  co_return decides;
}

task<bool> break_down() {
  throw std::runtime_error("broken");
  co_return false;
}

struct pair_of_tasks {
  bool first_ended = false;
  bool second_ended = false;
  bool behind = false;  // the pair ended and its awaiter went on

  task<void> run(task<bool> first, task<bool> second) {
    co_await accept_cancellation();
    co_await run_until_one_decides(std::move(first), std::move(second));
    behind = true;
  }
};

constexpr std::chrono::hours k_long{1};
constexpr std::chrono::milliseconds k_soon{1};

struct group_fixture {
  asio::io_context context{1};
  std::vector<std::string> faults;
  task_group group{context.get_executor(), [this](std::exception_ptr fault) {
                     try {
                       std::rethrow_exception(fault);
                     } catch (const std::exception& e) {
                       faults.push_back(e.what());
                     }
                   }};
};

TEST_CASE("cancel_all ends every task and is no fault") {
  group_fixture f;
  bool first = false;
  bool second = false;
  f.group.spawn(wait_long(first));
  f.group.spawn(wait_long(second));
  f.context.poll();
  CHECK(f.group.size() == 2);
  CHECK_FALSE(first);
  f.group.cancel_all();
  f.context.restart();
  f.context.run();
  CHECK((first && second));
  CHECK(f.group.size() == 0);
  CHECK(f.faults.empty());
}

TEST_CASE("a signal ends its own task only") {
  group_fixture f;
  bool first = false;
  bool second = false;
  const auto signal = std::make_shared<asio::cancellation_signal>();
  f.group.spawn(wait_long(first), signal);
  f.group.spawn(wait_long(second));
  f.context.poll();
  signal->emit(asio::cancellation_type::total);
  f.context.restart();
  f.context.poll();
  CHECK(first);
  CHECK_FALSE(second);
  CHECK(f.group.size() == 1);
  f.group.cancel_all();
  f.context.restart();
  f.context.run();
}

TEST_CASE("an exception reaches the fault handler once") {
  group_fixture f;
  f.group.spawn(fail_with("broken"));
  f.context.run();
  CHECK(f.faults == std::vector<std::string>{"broken"});
  CHECK(f.group.size() == 0);
}

TEST_CASE("of two tasks the one that decides ends the other, whichever it is") {
  for (const bool first_decides : {true, false}) {
    group_fixture f;
    pair_of_tasks pair;
    auto first = after(first_decides ? k_soon : k_long, true, pair.first_ended);
    auto second = after(first_decides ? k_long : k_soon, true, pair.second_ended);
    f.group.spawn(pair.run(std::move(first), std::move(second)));
    f.context.run();
    CHECK((pair.first_ended && pair.second_ended));
    CHECK(pair.behind);
    CHECK(f.faults.empty());
  }
}

TEST_CASE("of two tasks one that does not decide leaves the other alone") {
  group_fixture f;
  pair_of_tasks pair;
  auto first = after(k_soon, false, pair.first_ended);
  auto second = after(k_long, true, pair.second_ended);
  f.group.spawn(pair.run(std::move(first), std::move(second)));
  f.context.run_one_for(std::chrono::seconds(1));
  while (!pair.first_ended) f.context.run_one_for(std::chrono::seconds(1));
  f.context.poll();
  CHECK_FALSE(pair.second_ended);
  f.group.cancel_all();
  f.context.restart();
  f.context.run();
  CHECK(pair.second_ended);
}

TEST_CASE("cancellation ends both of two tasks, and what awaits them") {
  group_fixture f;
  pair_of_tasks pair;
  auto first = after(k_long, true, pair.first_ended);
  auto second = after(k_long, true, pair.second_ended);
  f.group.spawn(pair.run(std::move(first), std::move(second)));
  f.context.poll();
  f.group.cancel_all();
  f.context.restart();
  f.context.run();
  CHECK((pair.first_ended && pair.second_ended));
  CHECK_FALSE(pair.behind);
  CHECK(f.faults.empty());
}

TEST_CASE("a fault of one of two tasks ends the other and reaches the handler") {
  group_fixture f;
  pair_of_tasks pair;
  auto second = after(k_long, true, pair.second_ended);
  f.group.spawn(pair.run(break_down(), std::move(second)));
  f.context.run();
  CHECK(pair.second_ended);
  CHECK_FALSE(pair.behind);
  CHECK(f.faults == std::vector<std::string>{"broken"});
}

}  // namespace
}  // namespace weir::gateway
