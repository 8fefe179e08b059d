#include "gateway/kv_events/subscriber.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "gateway/kv_events/event_stream.hpp"

namespace weir::gateway::kv_events {

namespace {

constexpr int k_sockets_max = 16'384;  // four of each source, of which there are at most 1,024 in an index
constexpr std::chrono::milliseconds k_poll_longest{1'000};

}  // namespace

struct subscriber::impl {
  impl(notice notify, const subscriber_limits& limits) {
    all.context.set(zmq::ctxopt::max_sockets, k_sockets_max);
    all.limits = limits;
    all.notify = std::move(notify);
    if (wake_fd < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    thread = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  ~impl() {
    thread.request_stop();
    wake();
    thread.join();
    ::close(wake_fd);
  }

  // Runs `act` on the thread and waits for it.
  void perform(std::function<void()> act) {
    assert(std::this_thread::get_id() != thread.get_id());
    std::packaged_task<void()> task(std::move(act));
    auto done = task.get_future();
    {
      const std::lock_guard lock(mutex);
      tasks.push_back(std::move(task));
    }
    wake();
    done.get();
  }

  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_fd, &one, sizeof one);
  }

  void run(const std::stop_token& stop);
  void run_tasks();
  long poll_ms() const;
  void work_all();

  event_stream::shared all;
  std::map<source_id, std::unique_ptr<event_stream>> streams;  // the thread's
  source_id last_id = 0;                                       // the thread's
  std::vector<zmq::pollitem_t> items;                          // the thread's
  std::mutex mutex;
  std::vector<std::packaged_task<void()>> tasks;  // under the mutex
  int wake_fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  std::jthread thread;
};

void subscriber::impl::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    items.clear();
    items.push_back({nullptr, wake_fd, ZMQ_POLLIN, 0});
    for (auto& [id, stream] : streams) stream->append_poll_items(items);
    zmq_poll(items.data(), static_cast<int>(items.size()), poll_ms());
    if ((items.front().revents & ZMQ_POLLIN) != 0) run_tasks();
    work_all();
  }
  streams.clear();
  run_tasks();
}

long subscriber::impl::poll_ms() const {
  const auto now = clock::now();
  auto until = now + k_poll_longest;
  for (const auto& [id, stream] : streams) until = std::min(until, stream->due());
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  return std::max<long>(left, 0);
}

void subscriber::impl::run_tasks() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto was_read = ::read(wake_fd, &count, sizeof count);
  std::vector<std::packaged_task<void()>> taken;
  {
    const std::lock_guard lock(mutex);
    taken.swap(tasks);
  }
  for (auto& task : taken) task();
}

// A fault of one source ends that source alone.
void subscriber::impl::work_all() {
  const auto now = clock::now();
  for (auto at = streams.begin(); at != streams.end();) {
    try {
      at->second->work(now);
      ++at;
    } catch (const std::exception& e) {
      if (all.notify)
        all.notify(fmt::format("source {}", at->first), fmt::format("ended by a fault: {}", e.what()));
      at = streams.erase(at);
    }
  }
}

subscriber::subscriber(notice notify, const subscriber_limits& limits)
    : impl_(std::make_unique<impl>(std::move(notify), limits)) {}

subscriber::~subscriber() = default;

std::expected<subscriber::source, std::string> subscriber::add(const source_options& options,
                                                               std::shared_ptr<stream_sink> sink) {
  assert(sink != nullptr);
  const auto live = rank_endpoint(options.endpoint, options.data_parallel_rank);
  if (!live) return std::unexpected(live.error());
  const auto replay = rank_endpoint(options.replay_endpoint, options.data_parallel_rank);
  if (!replay && !options.replay_endpoint.empty()) return std::unexpected(replay.error());
  std::expected<source, std::string> out;
  const auto status = std::make_shared<source_status>();
  impl_->perform([&] {
    try {
      auto stream = std::make_unique<event_stream>(impl_->all, options, std::move(sink), status);
      out = source{++impl_->last_id, status};
      impl_->streams.emplace(impl_->last_id, std::move(stream));
    } catch (const zmq::error_t& e) {
      out = std::unexpected(fmt::format("{}: {}", options.endpoint, e.what()));
    }
  });
  return out;
}

void subscriber::remove(source_id id) {
  impl_->perform([this, id] { impl_->streams.erase(id); });
}

void subscriber::reset(source_id id) {
  impl_->perform([this, id] {
    const auto found = impl_->streams.find(id);
    if (found != impl_->streams.end()) found->second->reset();
  });
}

}  // namespace weir::gateway::kv_events
