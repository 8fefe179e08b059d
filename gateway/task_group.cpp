#include "gateway/task_group.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/system/system_error.hpp>
#include <utility>

namespace weir::gateway {

namespace {

bool is_cancellation(const std::exception_ptr& fault) {
  try {
    std::rethrow_exception(fault);
  } catch (const boost::system::system_error& e) {
    return e.code() == asio::error::operation_aborted;
  } catch (...) {
    return false;
  }
}

struct until_one_decides {
  asio::cancellation_type operator()(const std::exception_ptr& fault, bool decides) const noexcept {
    return fault || decides ? asio::cancellation_type::all : asio::cancellation_type::none;
  }
};

}  // namespace

struct task_group::completion {
  task_group* group;
  std::list<signal_ptr>::iterator entry;
  signal_ptr signal;  // the slot stays valid until the last reference to it is gone

  void operator()(std::exception_ptr fault) const {
    group->running_.erase(entry);
    if (fault && !is_cancellation(fault)) group->on_fault_(fault);
  }
};

task_group::task_group(io_executor executor, fault_handler on_fault)
    : executor_(executor), on_fault_(std::move(on_fault)) {}

void task_group::spawn(task<void> t, signal_ptr signal) {
  if (!signal) signal = std::make_shared<asio::cancellation_signal>();
  running_.push_front(signal);
  const asio::cancellation_slot slot = signal->slot();
  completion done{this, running_.begin(), std::move(signal)};
  asio::co_spawn(executor_, std::move(t), asio::bind_cancellation_slot(slot, std::move(done)));
}

void task_group::cancel_all() {
  // A copy: an emission may complete a task at once where it resumes inline.
  const std::list<signal_ptr> running = running_;
  for (const signal_ptr& signal : running) signal->emit(asio::cancellation_type::all);
}

task<void> run_until_one_decides(task<bool> one, task<bool> other) {
  const io_executor executor = co_await asio::this_coro::executor;
  auto both =
      asio::experimental::make_parallel_group(asio::co_spawn(executor, std::move(one), asio::deferred),
                                              asio::co_spawn(executor, std::move(other), asio::deferred));
  const auto [order, fault, decides, other_fault, other_decides] =
      co_await both.async_wait(until_one_decides{}, use_task);
  for (const auto& f : {fault, other_fault}) {
    if (f && !((decides || other_decides) && is_cancellation(f))) std::rethrow_exception(f);
  }
}

std::string describe(const std::exception_ptr& fault) {
  try {
    std::rethrow_exception(fault);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace weir::gateway
