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

}  // namespace
}  // namespace weir::gateway
