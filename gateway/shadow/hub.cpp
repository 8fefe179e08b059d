#include "gateway/shadow/hub.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/execution_context.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "gateway/shadow/copy.hpp"
#include "gateway/task_group.hpp"

namespace weir::gateway::shadow {

// The copies of one I/O thread: a service of its io_context.
class local_copies final : public asio::execution_context::service {
 public:
  using key_type = local_copies;
  static asio::execution_context::id id;

  explicit local_copies(asio::execution_context& context)
      : asio::execution_context::service(context),
        tasks_(static_cast<asio::io_context&>(context).get_executor(), [](const std::exception_ptr& fault) {
          spdlog::error("fault: shadow copy: {}", describe(fault));
        }) {}

  void run(hub& owner, std::unique_ptr<copy_job> job) {
    if (owner_ == nullptr) {
      owner_ = &owner;
      owner.attach(this);
    }
    tasks_.spawn(run_copy(owner, std::move(job)));
  }

  void cut() {
    asio::post(tasks_.executor(), [this] { tasks_.cancel_all(); });
  }

 private:
  void shutdown() noexcept override {
    if (owner_ != nullptr) owner_->detach(this);
  }

  task_group tasks_;
  hub* owner_ = nullptr;
};

asio::execution_context::id local_copies::id;

hub::~hub() {
  close();
}

void hub::begin(const io_executor& executor, std::unique_ptr<copy_job> job) {
  if (is_cut()) {
    job->to->counters.drop(observe::shadow_drop::shutdown);
    return;
  }
  asio::use_service<local_copies>(executor.context()).run(*this, std::move(job));
}

void hub::cut() {
  cut_ = true;
  const std::lock_guard lock(mutex_);
  for (auto* const local : locals_) local->cut();
}

void hub::close() {
  cut_ = true;
  std::unique_ptr<asio::thread_pool> workers;
  {
    const std::lock_guard lock(mutex_);
    workers = std::move(workers_);
  }
  if (workers) workers->join();
}

asio::thread_pool& hub::workers() {
  const std::lock_guard lock(mutex_);
  if (!workers_) workers_ = std::make_unique<asio::thread_pool>(1);
  return *workers_;
}

void hub::attach(local_copies* of) {
  const std::lock_guard lock(mutex_);
  locals_.push_back(of);
}

void hub::detach(local_copies* of) {
  const std::lock_guard lock(mutex_);
  std::erase(locals_, of);
}

}  // namespace weir::gateway::shadow
