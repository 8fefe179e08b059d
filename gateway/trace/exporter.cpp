#include "gateway/trace/exporter.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "gateway/task_group.hpp"
#include "gateway/upstream/side_call.hpp"
#include "gateway/version.hpp"

namespace weir::gateway::trace {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t k_answer_bytes_max = 64 << 10;
constexpr std::chrono::milliseconds k_first_pause{500};
constexpr std::chrono::seconds k_pause_max{10};
constexpr std::chrono::seconds k_complaint_period{60};

bool is_retryable(int status) noexcept {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

}  // namespace

// Members are ordered for destruction: what coroutine frames refer to outlives the io_context that owns them.
struct exporter::impl {
  impl(std::shared_ptr<const upstream::origin> to, std::string under, std::string with, resource of)
      : collector(std::move(to)), path(std::move(under)), headers(std::move(with)), about(std::move(of)) {
    tasks = std::make_unique<task_group>(context.get_executor(), [](std::exception_ptr fault) {
      spdlog::error("fault: trace exporter: {}", describe(fault));
    });
    tasks->spawn(work());
    thread = std::thread([this] { run(); });
  }

  void run();
  void stop();
  task<void> work();
  task<void> deliver(std::vector<span> batch);
  std::vector<span> next_batch();
  void complain(std::string_view why, std::size_t spans);

  const std::shared_ptr<const upstream::origin> collector;
  const std::string path;
  const std::string headers;
  const resource about;
  export_counts counts;
  std::mutex mutex;
  std::vector<span> waiting;                 // under mutex
  std::optional<clock::time_point> stop_by;  // the thread's own, as all below
  std::optional<clock::time_point> complained;
  std::unique_ptr<task_group> tasks;
  asio::io_context context{1};
  asio::executor_work_guard<io_executor> guard{context.get_executor()};
  io_timer wake{context.get_executor()};
  std::thread thread;
};

void exporter::impl::run() {
  while (!stop_by || tasks->size() > 0) {
    try {
      const auto handlers = stop_by ? context.run_one_until(*stop_by) : context.run_one();
      if (handlers == 0) return;
    } catch (...) {
      spdlog::error("fault: trace exporter: {}", describe(std::current_exception()));
    }
  }
}

void exporter::impl::stop() {
  stop_by = clock::now() + k_last_wait;
  wake.cancel();
}

std::vector<span> exporter::impl::next_batch() {
  const std::lock_guard lock(mutex);
  const auto count = std::min(waiting.size(), k_batch_spans);
  std::vector<span> out(std::make_move_iterator(waiting.begin()),
                        std::make_move_iterator(waiting.begin() + static_cast<std::ptrdiff_t>(count)));
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(count));
  return out;
}

task<void> exporter::impl::work() {
  co_await accept_cancellation();
  while (true) {
    auto batch = next_batch();
    if (!batch.empty()) {
      co_await deliver(std::move(batch));
      continue;
    }
    if (stop_by) co_return;
    wake.expires_after(k_batch_wait);
    const auto token = asio::as_tuple(use_task);
    co_await wake.async_wait(token);
  }
}

task<void> exporter::impl::deliver(std::vector<span> batch) {
  const auto body = to_otlp_json(about, batch);
  const auto head = fmt::format(
      "POST {} HTTP/1.1\r\nhost: {}\r\nuser-agent: weir/{}\r\ncontent-type: "
      "application/json\r\n{}content-length: "
      "{}\r\n\r\n",
      path, collector->url.authority, k_version, headers, body.size());
  clock::duration pause = k_first_pause;
  std::string why;
  for (int tries = 1;; ++tries) {
    const auto by = std::min(clock::now() + k_post_time, stop_by.value_or(clock::time_point::max()));
    const auto reply = co_await upstream::call_aside(collector, head, body, by, k_answer_bytes_max);
    if (reply && reply->status >= 200 && reply->status <= 299) {
      counts.sent.fetch_add(batch.size(), std::memory_order_relaxed);
      co_return;
    }
    why = reply ? fmt::format("it answered {}", reply->status) : reply.error();
    if ((reply && !is_retryable(reply->status)) || tries == k_tries || stop_by) break;
    if (reply && reply->retry_after_s > 0) pause = std::chrono::seconds(reply->retry_after_s);
    wake.expires_after(std::min<clock::duration>(pause, k_pause_max));
    const auto token = asio::as_tuple(use_task);
    co_await wake.async_wait(token);
    pause *= 2;
  }
  complain(why, batch.size());
}

void exporter::impl::complain(std::string_view why, std::size_t spans) {
  counts.dropped.fetch_add(spans, std::memory_order_relaxed);
  const auto now = clock::now();
  if (complained && now - *complained < k_complaint_period) return;
  complained = now;
  spdlog::warn("tracing: {} spans are lost, {} does not take them: {}", spans, collector->url.authority, why);
}

exporter::exporter(std::shared_ptr<const upstream::origin> collector, std::string path, std::string headers,
                   resource about)
    : impl_(std::make_unique<impl>(std::move(collector), std::move(path), std::move(headers),
                                   std::move(about))) {}

exporter::~exporter() {
  asio::post(impl_->context, [i = impl_.get()] { i->stop(); });
  impl_->thread.join();
}

void exporter::take(span done) {
  std::size_t count = 0;
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->waiting.size() >= k_spans_max) {
      impl_->counts.dropped.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    impl_->waiting.push_back(std::move(done));
    count = impl_->waiting.size();
  }
  if (count == k_batch_spans) asio::post(impl_->context, [i = impl_.get()] { i->wake.cancel(); });
}

const export_counts& exporter::counts() const noexcept {
  return impl_->counts;
}

}  // namespace weir::gateway::trace
