#include "engine/worker.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

namespace weir::engine {

namespace {

constexpr const char* k_unfollowed = "a request's constraint could not be followed";
constexpr std::chrono::milliseconds k_look_interval{500};  // at other ranks, without work

}  // namespace

worker::worker(const worker_config& config, std::unique_ptr<runner::model_runner> runner)
    : config_(config),
      runner_(std::move(runner)),
      recorder_(config.experts),
      scheduler_(config.limits),
      pace_(config.decode_stretch),
      logits_(static_cast<std::size_t>(config.vocab_size)) {
  counters_.kv_pages_total = scheduler_.memory().pool().total_pages();
  counters_.kv_pages_free = counters_.kv_pages_total;
  counters_.page_bytes = config.page_bytes;
  counters_.kv_bytes = config.kv_bytes;
  counters_.state_pages = config.limits.memory.pool.slab_pages;
  counters_.state_slots_total = config.limits.sequences_max;
  stats_ = counters_;
  thread_ = std::thread(&worker::loop, this);
}

worker::~worker() {
  stop();
}

result<sequence_id> worker::submit(generate_request request, std::shared_ptr<event_sink> sink) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return fail(errc::stopped, "the engine is shutting down");
  if (is_lost_) return fail(errc::lost, "the engine " + fault_);
  const auto live_max =
      static_cast<std::size_t>(config_.limits.sequences_max) + static_cast<std::size_t>(config_.queue_max);
  if (live_.size() >= live_max) {
    return fail(errc::queue_full,
                "the engine runs or queues " + std::to_string(live_max) + " requests; retry later");
  }
  const sequence_id id = next_id_++;
  inbox_.push_back({std::make_unique<scheduler::sequence>(id, std::move(request), std::move(sink)),
                    monitor::clock::now()});
  live_.insert(id);
  wake_.notify_one();
  return id;
}

void worker::cancel(sequence_id id) noexcept {
  const std::lock_guard lock(mutex_);
  if (!live_.contains(id) || !cancelled_.insert(id).second) return;
  cancels_.push_back(id);
  wake_.notify_one();
}

engine_stats worker::stats() const noexcept {
  const std::lock_guard lock(mutex_);
  engine_stats out = stats_;
  out.waiting = static_cast<std::int32_t>(live_.size()) - out.running;
  return out;
}

void worker::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  const std::lock_guard joining(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

void worker::loop() {
  try {
    while (take_inbox()) {
      if (!scheduler_.has_work()) continue;
      try {
        step();
      } catch (const parallel::rank_lost&) {
        throw;
      } catch (const std::exception& fault) {
        recover(fault.what());
      }
      publish();
    }
  } catch (const parallel::rank_lost& lost) {
    give_up(lost.what());
  }
  finish_all(finish_reason::cancelled);
}

// Waits for something to do. False once the engine stops.
bool worker::take_inbox() {
  std::vector<arrival> arrived;
  std::vector<sequence_id> cancels;
  bool stopping = false;
  {
    std::unique_lock lock(mutex_);
    const bool idle = !scheduler_.has_work();
    const auto woken = [this] { return stopping_ || !inbox_.empty() || !cancels_.empty(); };
    if (idle && !config_.has_ranks) wake_.wait(lock, woken);
    while (idle && !wake_.wait_for(lock, k_look_interval, woken)) runner_->check();
    arrived.swap(inbox_);
    cancels.swap(cancels_);
    stopping = stopping_;
  }
  for (auto& [seq, at] : arrived) {
    recorder_.arrived(seq->id, at);
    scheduler_.add(std::move(seq));
  }
  for (const sequence_id id : cancels) finish(id, finish_reason::cancelled);
  return !stopping;
}

void worker::step() {
  const auto begun = monitor::clock::now();
  if (config_.times) *config_.times = {};
  const runner::batch& work = scheduler_.plan(pace_.budget());
  if (recorder_.any_queued()) recorder_.running(scheduler_.running_ids(), begun);
  publish();
  runner_->copy(scheduler_.take_ops());
  runner_->run(work);
  ++counters_.steps;
  const std::vector<scheduler::sequence*> ready = scheduler_.complete();
  tell_cache_events();  // before the sinks hear of it, so that whoever goes on with a prompt finds it known
  deliver(ready);
  const std::chrono::duration<double> took = monitor::clock::now() - begun;
  pace_.note(scheduler_.decoding_count(), work.row_count() - scheduler_.decoding_count(), took.count());
  if (work.row_count() > 0) {
    recorder_.step(work, took.count(), config_.times ? *config_.times : kernels::op_times{});
  }
}

void worker::tell_cache_events() {
  if (!config_.on_cache_events) return;
  const std::vector<cache::cache_event> events = scheduler_.take_events();
  if (!events.empty()) config_.on_cache_events(events);
}

void worker::deliver(const std::vector<scheduler::sequence*>& ready) {
  const auto now = monitor::clock::now();
  std::int32_t index = 0;
  for (scheduler::sequence* seq : ready) {
    runner_->copy_logits(index++, logits_);
    if (!std::ranges::all_of(logits_, [](double logit) { return std::isfinite(logit); })) {
      break_off(*seq,
                "the model's logits are not finite: its weights are broken, or not of this architecture");
      continue;
    }
    if (!seq->guide.prepare(seq->stop_tokens)) {
      break_off(*seq, k_unfollowed);
      continue;
    }
    if (!std::exchange(seq->started, true)) seq->sink->on_started(seq->cached);
    const token_event event = seq->sampler.next(logits_, seq->guide.mask());
    ++counters_.generated_tokens;
    recorder_.token(seq->id, now);
    if (seq->stops_at(event.token)) {
      finish(seq->id, finish_reason::stop);
      continue;
    }
    if (!seq->guide.accept(event.token)) {
      break_off(*seq, k_unfollowed);
      continue;
    }
    seq->tokens.push_back(event.token);
    seq->sink->on_token(event);
    if (seq->guide.must_end()) {
      finish(seq->id, finish_reason::stop);
    } else if (seq->generated() == seq->max_new_tokens) {
      finish(seq->id, finish_reason::length);
    }
  }
}

// What is wrong with one sequence ends that alone.
void worker::break_off(const scheduler::sequence& seq, const char* why) noexcept {
  if (config_.on_fault) config_.on_fault(why);
  finish(seq.id, finish_reason::failed);
}

// A step that threw has left unknown state behind: everything that ran is ended, what only waited may still
// be served.
void worker::recover(const std::string& fault) noexcept {
  if (config_.on_fault) config_.on_fault(fault);
  const std::vector<sequence_id> running = scheduler_.running_ids();
  for (const sequence_id id : running) finish(id, finish_reason::failed);
  if (running.empty()) finish_all(finish_reason::failed);
}

// For good: what the lost rank held of every sequence is gone, and who accepted goes on answering.
void worker::give_up(const std::string& fault) noexcept {
  if (config_.on_fault) config_.on_fault(fault);
  std::vector<arrival> arrived;
  {
    const std::lock_guard lock(mutex_);
    fault_ = fault;
    is_lost_ = true;
    arrived.swap(inbox_);
  }
  for (auto& [seq, at] : arrived) {
    recorder_.arrived(seq->id, at);
    scheduler_.add(std::move(seq));
  }
  finish_all(finish_reason::failed);
}

std::string worker::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

void worker::finish(sequence_id id, finish_reason reason) noexcept {
  const std::unique_ptr<scheduler::sequence> seq = scheduler_.remove(id);
  if (seq == nullptr) return;
  recorder_.ended(id, reason, monitor::clock::now());
  publish();  // before the sink knows, so that whoever waits for it finds the memory given back
  {
    const std::lock_guard lock(mutex_);
    live_.erase(id);
    cancelled_.erase(id);
  }
  seq->sink->on_finished(reason);
}

void worker::finish_all(finish_reason reason) noexcept {
  for (const sequence_id id : scheduler_.running_ids()) finish(id, reason);
  for (const sequence_id id : scheduler_.waiting_ids()) finish(id, reason);
}

void worker::publish() noexcept {
  counters_.running = scheduler_.running_count();
  const scheduler::scheduler_counters& done = scheduler_.counters();
  counters_.prompt_tokens = done.prompt_tokens;
  counters_.recomputed_tokens = done.recomputed_tokens;
  counters_.preemptions = done.preemptions;
  const kv::memory_pool& pool = scheduler_.memory().pool();
  const cache::prefix_cache& cached = scheduler_.memory().cached();
  counters_.kv_pages_used = pool.used_pages() - pool.cached_pages();
  counters_.kv_pages_cached = pool.cached_pages();
  counters_.kv_pages_free = pool.free_pages();
  counters_.state_slots_used = pool.states() - cached.checkpoint_count();
  counters_.checkpoints = cached.checkpoint_count();
  const auto hit = [&cached](cache::checkpoint_kind kind) {
    return cached.counters().hit_tokens[static_cast<std::size_t>(kind)];
  };
  counters_.cached_prompt_end = hit(cache::checkpoint_kind::prompt_end);
  counters_.cached_junction = hit(cache::checkpoint_kind::junction);
  counters_.cached_hint = hit(cache::checkpoint_kind::hint);
  counters_.cached_interval = hit(cache::checkpoint_kind::interval);
  counters_.checkpoints_stored = cached.counters().stored;
  counters_.evictions = cached.counters().evicted;
  const std::lock_guard lock(mutex_);
  stats_ = counters_;
}

}  // namespace weir::engine
