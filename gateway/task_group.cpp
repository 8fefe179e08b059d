#include "gateway/task_group.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>
#include <utility>

namespace weir::gateway {

struct task_group::completion {
  task_group* group;
  std::list<signal_ptr>::iterator entry;
  signal_ptr signal;  // the slot stays valid until the last reference to it is gone

  void operator()(std::exception_ptr fault) const {
    group->running_.erase(entry);
    if (!fault) return;
    try {
      std::rethrow_exception(fault);
    } catch (const boost::system::system_error& e) {
      if (e.code() != asio::error::operation_aborted) group->on_fault_(fault);
    } catch (...) {
      group->on_fault_(fault);
    }
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
