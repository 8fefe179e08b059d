#include "loadtest/replay/replay.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <numeric>

#include "policy/pending_work.hpp"

namespace weir::loadtest::replay {

namespace {

constexpr double k_never_s = 1e300;
constexpr double k_window_s = 60;
constexpr std::size_t k_window_requests_min = 100;
// Of a second; two events closer than this are one.
constexpr double k_same_time_s = 1e-9;

double at_share(const std::vector<float>& sorted, double share) {
  const auto last = sorted.size() - 1;
  return static_cast<double>(
      sorted[std::min(last, static_cast<std::size_t>(share * static_cast<double>(sorted.size())))]);
}

struct first_token {
  double at_s;
  std::size_t replica;
  policy::pending_work::ticket ticket;
};

struct waiting {
  const trace_request* request;
  std::span<const std::uint64_t> blocks;  // that could be reused
  std::int64_t prompt_tokens;
  std::uint64_t seed;
  std::vector<policy::prefix_view> held;      // as found
  std::vector<policy::prefix_view> believed;  // as the estimate of the policy takes it
};

class simulation {
 public:
  simulation(std::span<const trace_request> trace, const replay_options& options);
  replay_result run();

 private:
  void take_arrivals();
  void end_prefills();
  void place_all();
  void look_up(waiting& w);
  void refresh_targets();
  void dispatch(waiting w, std::size_t replica, const policy::prefix_view& predicted);
  double next_event_s() const;
  replay_result summary();

  std::span<const trace_request> trace_;
  const replay_options& options_;
  double tokens_per_s_;
  std::vector<std::unique_ptr<replica_state>> replicas_;
  std::unique_ptr<residency> index_;
  std::vector<policy::target_view> targets_;
  std::vector<policy::pending_work> pending_;  // the gateway's ledger
  std::vector<double> free_at_s_;              // the replica's own
  std::vector<first_token> running_;
  std::vector<waiting> waiting_;
  std::size_t next_ = 0;
  double now_s_ = 0;

  std::vector<std::size_t> count_;
  std::deque<std::pair<double, std::size_t>> window_;
  std::vector<std::size_t> window_count_;
  std::vector<double> decision_us_;
  std::vector<truth::cache_change> changes_;
  double prompt_tokens_ = 0, reused_tokens_ = 0, predicted_tokens_ = 0, error_sum_ = 0;
  replay_result result_;
};

simulation::simulation(std::span<const trace_request> trace, const replay_options& options)
    : trace_(trace),
      options_(options),
      tokens_per_s_(options.blocks_per_s * k_trace_block_tokens),
      targets_(options.replicas),
      pending_(options.replicas),
      free_at_s_(options.replicas, 0.0),
      count_(options.replicas, 0),
      window_count_(options.replicas, 0) {
  for (std::size_t r = 0; r < options.replicas; ++r) {
    replicas_.push_back(make_replica(options.knows.cache));
    targets_[r].name = "replica";
    targets_[r].ready = true;
    targets_[r].speed.prefill_tokens_per_s = tokens_per_s_;
    targets_[r].price.usd_per_s = options.work_price * options.how.value_of_time_usd_per_s;
  }
  index_ = make_residency(options.knows, replicas_);
  result_.ttft_s.reserve(trace.size());
  decision_us_.reserve(trace.size());
}

void simulation::look_up(waiting& w) {
  index_->find(w.blocks, w.held);
  w.believed = w.held;
  if (options_.estimate == reuse_estimate::checkpoint) return;
  for (auto& p : w.believed) {
    if (options_.estimate == reuse_estimate::none) p.page_tokens = 0;
    p.reusable_tokens = p.page_tokens;
  }
}

void simulation::take_arrivals() {
  while (next_ < trace_.size() && trace_[next_].at_s <= now_s_ + k_same_time_s) {
    const auto& request = trace_[next_];
    std::size_t blocks = request.blocks.size();
    auto tokens = static_cast<std::int64_t>(blocks) * k_trace_block_tokens;
    if (options_.count == lengths::tokens) {
      tokens = request.input_tokens;
      blocks = std::min(blocks, static_cast<std::size_t>((tokens - 1) / k_trace_block_tokens));
    }
    waiting_.push_back({.request = &request,
                        .blocks = std::span(request.blocks).first(blocks),
                        .prompt_tokens = tokens,
                        .seed = options_.seed * 0x9e3779b97f4a7c15ULL + next_,
                        .held = std::vector<policy::prefix_view>(options_.replicas),
                        .believed = {}});
    ++next_;
  }
}

void simulation::end_prefills() {
  const auto over = [&](const first_token& f) { return f.at_s <= now_s_ + k_same_time_s; };
  for (const auto& f : running_) {
    if (!over(f)) continue;
    pending_[f.replica].done(f.ticket, f.at_s);
    --targets_[f.replica].load.running;
  }
  std::erase_if(running_, over);
}

void simulation::refresh_targets() {
  for (std::size_t r = 0; r < targets_.size(); ++r) {
    targets_[r].load.pending_prefill_tokens = pending_[r].tokens(tokens_per_s_, now_s_);
  }
}

void simulation::place_all() {
  std::vector<policy::waiting_request> asks;
  while (!waiting_.empty()) {
    const auto begun = std::chrono::steady_clock::now();
    refresh_targets();
    asks.clear();
    for (auto& w : waiting_) {
      look_up(w);
      asks.push_back({.facts = {.prompt_tokens = w.prompt_tokens},
                      .how = options_.how,
                      .overflow = {},
                      .prefixes = w.believed,
                      .excluded = {},
                      .set_aside = {},
                      .waited_s = now_s_ - w.request->at_s,
                      .seed = w.seed});
    }
    const auto placed = policy::place_next(targets_, asks, options_.placement);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begun;
    decision_us_.push_back(took.count() / static_cast<double>(waiting_.size()));
    if (!placed) return;
    waiting w = std::move(waiting_[placed->request]);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(placed->request));
    dispatch(std::move(w), placed->made.picked, placed->made.candidates[placed->made.picked].prefix);
  }
}

void simulation::dispatch(waiting w, std::size_t replica, const policy::prefix_view& predicted) {
  const auto page = options_.knows.cache.page_tokens;
  const auto match = replicas_[replica]->match(w.blocks);
  const auto reused = static_cast<double>(match.reusable) * static_cast<double>(page);
  const auto prompt = static_cast<double>(w.prompt_tokens);
  const double start_s = std::max(free_at_s_[replica], now_s_);
  free_at_s_[replica] = start_s + (prompt - reused) / tokens_per_s_;
  result_.ttft_s.push_back(static_cast<float>(free_at_s_[replica] - w.request->at_s));

  std::size_t hints[2];
  std::size_t hint_count = 0;
  if (options_.sends_hints) {
    const auto wanted = policy::hints_for(w.prompt_tokens, w.held[replica], options_.hints);
    for (int i = 0; i < wanted.count; ++i)
      hints[hint_count++] = static_cast<std::size_t>(wanted.at[i] / page);
  }
  changes_.clear();
  const std::span<const std::size_t> given(hints, hint_count);
  replicas_[replica]->store(w.blocks, match, given, now_s_, &changes_);
  index_->dispatched(replica, w.blocks, given, changes_);

  const double believed_work = prompt - static_cast<double>(predicted.reusable_tokens);
  running_.push_back({free_at_s_[replica], replica, pending_[replica].dispatched(believed_work, now_s_)});
  ++targets_[replica].load.running;
  prompt_tokens_ += prompt;
  reused_tokens_ += reused;
  const auto expected = static_cast<double>(predicted.reusable_tokens);
  predicted_tokens_ += expected;
  error_sum_ += std::abs(expected - reused) / prompt;

  ++count_[replica];
  window_.emplace_back(now_s_, replica);
  ++window_count_[replica];
  while (window_.front().first <= now_s_ - k_window_s) {
    --window_count_[window_.front().second];
    window_.pop_front();
  }
  if (window_.size() > k_window_requests_min) {
    const auto most = static_cast<double>(*std::max_element(window_count_.begin(), window_count_.end()));
    const double spread = most * static_cast<double>(options_.replicas) / static_cast<double>(window_.size());
    result_.load_spread_60s = std::max(result_.load_spread_60s, spread);
  }
  if (options_.progress) options_.progress(result_.ttft_s.size());
}

double simulation::next_event_s() const {
  double next = next_ < trace_.size() ? trace_[next_].at_s : k_never_s;
  for (const auto& f : running_) next = std::min(next, f.at_s);
  if (waiting_.empty()) return next;
  // A replica takes the next request when its work falls to what it may hold.
  const double hold_tokens = options_.placement.hold_s * tokens_per_s_;
  for (const auto& p : pending_) {
    const double left = p.tokens(tokens_per_s_, now_s_) - hold_tokens;
    // Less than the slack of placement does not count as busy.
    if (left > policy::k_busy_slack_tokens) next = std::min(next, now_s_ + left / tokens_per_s_);
  }
  return next;
}

replay_result simulation::run() {
  while (next_ < trace_.size() || !waiting_.empty() || !running_.empty()) {
    now_s_ = std::max(now_s_, next_event_s());
    end_prefills();
    take_arrivals();
    place_all();
  }
  return summary();
}

replay_result simulation::summary() {
  auto& r = result_;
  summarize_ttft(r);
  const auto n = static_cast<double>(r.ttft_s.size());
  r.hit_rate = reused_tokens_ / prompt_tokens_;
  r.predicted_hit_rate = predicted_tokens_ / prompt_tokens_;
  r.prediction_error_mean = error_sum_ / n;
  const auto most = static_cast<double>(*std::max_element(count_.begin(), count_.end()));
  r.load_spread = most * static_cast<double>(options_.replicas) / n;
  std::sort(decision_us_.begin(), decision_us_.end());
  r.decision_us_p99 = decision_us_[std::min(decision_us_.size() - 1, decision_us_.size() * 99 / 100)];
  return std::move(result_);
}

}  // namespace

void summarize_ttft(replay_result& r) {
  std::sort(r.ttft_s.begin(), r.ttft_s.end());
  r.ttft_mean_s =
      std::accumulate(r.ttft_s.begin(), r.ttft_s.end(), 0.0) / static_cast<double>(r.ttft_s.size());
  r.ttft_p50_s = at_share(r.ttft_s, 0.5);
  r.ttft_p90_s = at_share(r.ttft_s, 0.9);
  r.ttft_p99_s = at_share(r.ttft_s, 0.99);
}

replay_result run_replay(std::span<const trace_request> trace, const replay_options& options) {
  return simulation(trace, options).run();
}

}  // namespace weir::loadtest::replay
