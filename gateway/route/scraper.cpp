#include "gateway/route/scraper.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "gateway/route/load_metrics.hpp"
#include "gateway/task_group.hpp"
#include "gateway/upstream/side_call.hpp"
#include "gateway/version.hpp"

namespace weir::gateway::route {

namespace {

using clock = std::chrono::steady_clock;
using read_result = std::expected<load_report, std::string>;

// Replicas that were started together are not asked together for ever.
constexpr double k_jitter = 0.1;
constexpr std::chrono::duration<double, std::milli> k_first_scrape_within{1'000};
constexpr std::string_view k_no_body;

struct followed {
  scraped_target target;
  std::string head;  // of every request
  task_group::signal_ptr signal = std::make_shared<asio::cancellation_signal>();
  std::optional<clock::time_point> complained;

  explicit followed(scraped_target t) : target(std::move(t)) {
    head = fmt::format("GET {} HTTP/1.1\r\nhost: {}\r\nuser-agent: weir/{}\r\naccept: */*\r\n", target.path,
                       target.at->url.authority, k_version);
    if (!target.at->keys.empty()) head += "authorization: Bearer " + target.at->keys.front().text + "\r\n";
    head += "\r\n";
  }

  bool is(const scraped_target& other) const {
    const auto same_state =
        !target.state.owner_before(other.state) && !other.state.owner_before(target.state);
    return same_state && target.at == other.at && target.path == other.path &&
           target.interval == other.interval;
  }
};

task<read_result> scrape(const followed& f) {
  const auto deadline = clock::now() + std::min(f.target.interval, k_scrape_time_max);
  auto reply = co_await upstream::call_aside(f.target.at, f.head, k_no_body, deadline, k_metrics_bytes_max);
  if (!reply) co_return std::unexpected(std::move(reply.error()));
  if (reply->status != 200) co_return std::unexpected(fmt::format("it answered {}", reply->status));
  const auto load = read_load(reply->body);
  if (!load) co_return std::unexpected("it says nothing of load in names that are known");
  co_return *load;
}

void publish(const load_report& load, const observe::scrape_counters& to) {
  const auto set = [](prometheus::Gauge* gauge, double value) {
    if (value >= 0) gauge->Set(value);
  };
  to.ok->Increment();
  set(to.running, load.running);
  set(to.waiting, load.waiting);
  set(to.waiting_uncached_tokens, load.waiting_uncached_tokens);
  set(to.capacity_tokens, load.capacity_tokens);
}

}  // namespace

// Members are ordered for destruction: what coroutine frames refer to outlives the io_context that owns them.
struct scraper::impl {
  explicit impl(restart_handler handler) : restarted(std::move(handler)) {
    tasks = std::make_unique<task_group>(context.get_executor(), [](std::exception_ptr fault) {
      spdlog::error("fault: load scraper: {}", describe(fault));
    });
    thread = std::thread([this] { run(); });
  }

  void run();
  void set(const std::vector<scraped_target>& targets);
  void stop();
  task<void> poll(std::shared_ptr<followed> f);
  void take(followed& f, const read_result& read);

  const restart_handler restarted;
  std::mt19937 random{std::random_device{}()};
  std::map<std::string, std::shared_ptr<followed>> by_name;  // the thread's own, as all below
  std::optional<clock::time_point> stop_by;
  std::unique_ptr<task_group> tasks;
  asio::io_context context{1};
  asio::executor_work_guard<io_executor> guard{context.get_executor()};
  std::thread thread;
};

void scraper::impl::run() {
  while (!stop_by || tasks->size() > 0) {
    try {
      const auto handlers = stop_by ? context.run_one_until(*stop_by) : context.run_one();
      if (handlers == 0) return;
    } catch (...) {
      spdlog::error("fault: load scraper: {}", describe(std::current_exception()));
    }
  }
}

void scraper::impl::stop() {
  stop_by = clock::now() + k_scraper_stop_wait;
  tasks->cancel_all();
}

void scraper::impl::set(const std::vector<scraped_target>& targets) {
  std::map<std::string, std::shared_ptr<followed>> next;
  for (const auto& target : targets) {
    const auto& name = target.at->name;
    const auto old = by_name.find(name);
    if (old != by_name.end() && old->second->is(target)) {
      next[name] = old->second;
      by_name.erase(old);
    } else {
      const auto& f = next[name] = std::make_shared<followed>(target);
      tasks->spawn(poll(f), f->signal);
    }
  }
  by_name.swap(next);
  for (const auto& [name, dropped] : next) dropped->signal->emit(asio::cancellation_type::all);
}

task<void> scraper::impl::poll(std::shared_ptr<followed> f) {
  co_await accept_cancellation();
  const io_executor executor = context.get_executor();
  io_timer timer(executor);
  std::uniform_real_distribution<double> first(0, 1);
  std::uniform_real_distribution<double> later(1 - k_jitter, 1 + k_jitter);
  const std::chrono::duration<double, std::milli> interval = f->target.interval;
  std::chrono::duration<double, std::milli> pause = std::min(interval, k_first_scrape_within) * first(random);
  while (true) {
    timer.expires_after(std::chrono::duration_cast<clock::duration>(pause));
    co_await timer.async_wait(use_task);
    const auto begun = clock::now();
    read_result read;
    try {
      read = co_await scrape(*f);
    } catch (const boost::system::system_error& e) {
      if (e.code() == asio::error::operation_aborted) throw;
      read = std::unexpected(std::string(e.what()));
    }
    take(*f, read);
    const decltype(pause) took = clock::now() - begun;
    pause = std::max(interval * later(random) - took, interval * k_jitter);
  }
}

void scraper::impl::take(followed& f, const read_result& read) {
  const auto now = clock::now();
  const auto& name = f.target.at->name;
  if (!read) {
    f.target.counters.failed->Increment();
    if (f.complained && now - *f.complained < k_scrape_complaint_period) return;
    f.complained = now;
    spdlog::warn("target '{}': its load at {} cannot be read, what it last said stays: {}", name,
                 f.target.path, read.error());
    return;
  }
  const auto state = f.target.state.lock();
  if (!state) return;
  const bool anew = state->report(*read, std::chrono::duration<double>(now.time_since_epoch()).count());
  publish(*read, f.target.counters);
  if (!anew) return;
  spdlog::info("target '{}' was restarted: its cache is taken for empty", name);
  restarted(name);
}

scraper::scraper(restart_handler restarted) : impl_(std::make_unique<impl>(std::move(restarted))) {}

scraper::~scraper() {
  asio::post(impl_->context, [i = impl_.get()] { i->stop(); });
  impl_->thread.join();
}

void scraper::follow(std::vector<scraped_target> targets) {
  asio::post(impl_->context, [i = impl_.get(), targets = std::move(targets)] { i->set(targets); });
}

}  // namespace weir::gateway::route
