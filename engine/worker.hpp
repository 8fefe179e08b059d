// The engine's one thread: takes requests from a bounded inbox, runs the scheduler's steps, samples, and
// calls the sinks.
//
// Invariants: whatever submit() accepted ends in exactly one on_finished(); sinks are called on the worker
// thread alone and without a lock held. Once a rank is lost it is over: all end as failed, nothing is
// accepted. Threads: public functions from any thread, but not stop() or the destructor from a sink.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "engine/engine.hpp"
#include "engine/monitor/recorder.hpp"
#include "engine/runner/model_runner.hpp"
#include "engine/scheduler/prompt_pace.hpp"
#include "engine/scheduler/scheduler.hpp"

namespace weir::engine {

struct worker_config {
  scheduler::limits limits;
  double decode_stretch = 0;  // scheduler/prompt_pace.hpp
  std::int32_t queue_max = 1;
  std::int64_t page_bytes = 0;
  std::int64_t kv_bytes = 0;
  std::int32_t vocab_size = 1;
  bool has_ranks = false;  // other processes compute parts: at rest it looks now and then whether they live
  std::shared_ptr<kernels::op_times> times;             // where the runner notes them
  std::shared_ptr<const monitor::expert_load> experts;  // likewise; null: the model has none
  std::function<void(const std::string&)> on_fault;     // may be empty
  std::function<void(const std::vector<cache::cache_event>&)> on_cache_events;  // may be empty
};

class worker final {
 public:
  worker(const worker_config& config, std::unique_ptr<runner::model_runner> runner);
  ~worker();
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;

  // errc::queue_full when as many wait as may; errc::stopped after stop(); errc::lost. REQUIRES: the request
  // was checked.
  result<sequence_id> submit(generate_request request, std::shared_ptr<event_sink> sink);
  void cancel(sequence_id id) noexcept;
  engine_stats stats() const noexcept;
  monitor::engine_activity activity() const { return recorder_.read(); }
  bool is_lost() const noexcept { return is_lost_; }
  std::string fault() const;  // why it is over; empty: it is not
  void stop() noexcept;

 private:
  struct arrival {
    std::unique_ptr<scheduler::sequence> seq;
    monitor::clock::time_point at;
  };

  void loop();
  bool take_inbox();
  void step();
  void tell_cache_events();
  void deliver(const std::vector<scheduler::sequence*>& ready);
  void break_off(const scheduler::sequence& seq, const char* why) noexcept;
  void recover(const std::string& fault) noexcept;
  void give_up(const std::string& fault) noexcept;
  void finish(sequence_id id, finish_reason reason) noexcept;
  void finish_all(finish_reason reason) noexcept;
  void publish() noexcept;

  const worker_config config_;
  const std::unique_ptr<runner::model_runner> runner_;

  std::atomic<bool> is_lost_ = false;
  mutable std::mutex mutex_;  // guards down to stats_
  std::condition_variable wake_;
  bool stopping_ = false;
  std::string fault_;  // with is_lost_
  sequence_id next_id_ = 1;
  std::vector<arrival> inbox_;
  std::vector<sequence_id> cancels_;           // each id of live_ at most once
  std::unordered_set<sequence_id> live_;       // accepted and not finished
  std::unordered_set<sequence_id> cancelled_;  // live ones that cancel() was called for
  engine_stats stats_;

  monitor::recorder recorder_;
  scheduler::scheduler scheduler_;  // the worker thread's own, as is what follows
  scheduler::prompt_pace pace_;
  std::vector<double> logits_;
  engine_stats counters_;

  std::mutex join_mutex_;
  std::thread thread_;
};

}  // namespace weir::engine
