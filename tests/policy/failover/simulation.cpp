#include "tests/policy/failover/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace weir::policy::failover {

namespace {

double seconds(std::int64_t ns) {
  return static_cast<double>(ns) / static_cast<double>(k_sim_s);
}

std::int64_t nanoseconds(double s) {
  return static_cast<std::int64_t>(s * static_cast<double>(k_sim_s));
}

}  // namespace

simulation::simulation(const sim_options& options) : options_(options), random_(options.seed) {
  for (std::size_t i = 0; i < options.targets; ++i) {
    targets_.emplace_back(options, i);
    if (options.window_tokens > 0 && i % 2 == 1) targets_.back().window_tokens = options.window_tokens;
  }
  requests_in_.resize(4'000);
  retries_in_.resize(4'000);
}

void simulation::check(bool holds, const char* what) const {
  if (!holds) throw std::logic_error(what + std::string(" at ") + std::to_string(seconds(now_)) + " s");
}

void simulation::post(std::int64_t at_ns, event e) {
  e.at_ns = std::max(at_ns, now_);
  e.order = order_++;
  events_.push(e);
}

std::int64_t simulation::around(std::int64_t mean_ns) {
  return static_cast<std::int64_t>(static_cast<double>(mean_ns) * (0.5 + random_unit()));
}

void simulation::run() {
  for (std::size_t i = 0; i < options_.script.size(); ++i) {
    post(options_.script[i].at_ns, {.what = kind::change, .request = i});
  }
  post(now_, {.what = kind::arrive});
  while (!events_.empty()) {
    const event e = events_.top();
    events_.pop();
    now_ = e.at_ns;
    dispatch(e);
  }
  check(queue_.empty(), "somebody still waits");
  for (const auto& t : targets_) {
    check(t.busy == 0 && t.permits == 0 && t.probes == 0, "an attempt is left in flight");
    totals_.openings += static_cast<std::size_t>(t.health.openings());
  }
  for (const auto& r : requests_) {
    check(r.ends == 1, "a request did not end exactly once");
    check(r.forwards <= 1, "two answers were forwarded");
    ++totals_.ends[static_cast<std::size_t>(r.how.why)];
    const auto why = r.how.why;
    const bool is_ours = why != failure_kind::refused && why != failure_kind::client_gone;
    totals_.answered += why == failure_kind::none ? 1 : 0;
    totals_.failed_early += r.forwards == 0 && is_ours && why != failure_kind::shed ? 1 : 0;
  }
  totals_.requests = requests_.size();
  const auto windows = (now_ - k_sim_s) / (9 * k_sim_s) + 1;
  check(totals_.retries <= totals_.requests / 10 + 3 * static_cast<std::size_t>(windows), "too many retries");
}

void simulation::dispatch(const event& e) {
  if (e.what == kind::change) return change(options_.script[e.request]);
  if (e.what == kind::arrive) return arrive(e.request);
  auto& r = requests_[e.request];
  if (e.what == kind::tick) return act(e.request, r.machine->tick(now_));
  if (e.what == kind::leave) return act(e.request, r.machine->client_gone());
  auto& run = r.runs[static_cast<std::size_t>(e.attempt)];
  if (e.what == kind::probe) {
    auto& t = targets_[run.target];
    if (!is_silent(t)) t.watch.heard(now_);
    return;
  }
  if (!run.is_live || run.turn != e.turn) return;
  auto& t = targets_[run.target];
  if (e.what == kind::check) return check_freeze(e.request, e.attempt);
  if (e.what == kind::timeout) {
    if (run.streams) return;
    return end_run(e.request, e.attempt, {.how = r.machine->timeout_of(e.attempt, now_)});
  }
  if (is_silent(t)) return post(now_ + 100 * k_sim_ms, e);  // it comes once the target moves again
  t.watch.heard(now_);
  run.heard_ns = now_;
  if (e.what == kind::content) {
    run.streams = true;
    t.health.content(run.under, now_);
    const auto next = r.machine->content(e.attempt, now_);
    check(next.what == step::forward, "content of a running attempt is not forwarded");
    return act(e.request, next);
  }
  auto how = e.end;
  how.after_content = run.streams;
  end_run(e.request, e.attempt, e.what == kind::finish ? attempt_end{.after_content = true} : how);
}

void simulation::arrive(std::size_t index) {
  const bool in_burst = now_ >= options_.burst_from_ns && now_ < options_.burst_to_ns;
  const double rate = options_.requests_per_s * (in_burst ? options_.burst_factor : 1);
  const auto gap_ns = nanoseconds(-std::log(1 - random_unit()) / rate);
  if (now_ + gap_ns < k_sim_s + options_.duration_ns) {
    post(now_ + gap_ns, {.what = kind::arrive, .request = index + 1});
  }
  auto& r = requests_.emplace_back();
  const bool awkward = options_.awkward;
  r.arrived_ns = now_;
  r.deadline_ns = now_ + (awkward ? around(options_.time_ns) : options_.time_ns);
  r.work_tokens = options_.work_tokens * (0.5 + random_unit());
  r.tenant = static_cast<std::uint32_t>(random_() % 3);
  if (awkward) r.rank = static_cast<shed_rank>(random_() % 6);
  r.is_bad = awkward && random_() % 40 == 0;
  const attempt_budgets budgets{
      .retries = &retries_, .hedges = &hedges_, .cost = static_cast<std::int64_t>(r.work_tokens)};
  r.machine = std::make_unique<attempts>(options_.terms, budgets, r.deadline_ns);
  ++requests_in_[static_cast<std::size_t>(now_ / k_sim_s)];
  if (awkward && random_() % 20 == 0) {
    post(now_ + around(options_.stream_ns), {.what = kind::leave, .request = index});
  }
  act(index, r.machine->begin(now_));
}

// In the slots of the budget itself: at a take, the window's retries are within its share of the requests.
void simulation::count_retry(int change) {
  const auto slot = static_cast<std::size_t>(now_ / k_sim_s);
  retries_in_[slot] += change;
  if (change < 0) return;
  int all = 0, taken = 0;
  for (std::size_t s = slot < 9 ? 0 : slot - 9; s <= slot; ++s) {
    all += requests_in_[s];
    taken += retries_in_[s];
  }
  check(taken <= std::max(3, all / 10), "more retries than the budget allows");
}

void simulation::act(std::size_t index, const action& a) {
  auto& r = requests_[index];
  if (a.cancel != k_no_attempt) cancel(index, a.cancel);
  switch (a.what) {
    case step::none:
      return;
    case step::wait:
      if (a.wake_ns < k_never_ns) post(a.wake_ns, {.what = kind::tick, .request = index});
      return;
    case step::pick: {
      check(r.forwards == 0 && r.ends == 0, "an attempt is chosen after the first content");
      const bool runs = std::any_of(r.runs.begin(), r.runs.end(), [](auto& run) { return run.is_live; });
      r.retry_taken = r.machine->begun() > 0 && !runs;
      if (r.retry_taken) count_retry(1);
      if (a.wake_ns < k_never_ns) post(a.wake_ns, {.what = kind::tick, .request = index});
      return choose(index);
    }
    case step::reconnect:
      check(r.forwards == 0, "a connection is replaced after the first content");
      ++totals_.reconnects;
      r.runs[static_cast<std::size_t>(a.attempt)].fresh = true;
      return serve(index, a.attempt);
    case step::forward:
      ++r.forwards;
      r.content_ns = now_;
      return;
    case step::end:
      ++r.ends;
      r.how = a.how;
      r.ended_ns = now_;
      check(r.forwards == 1 || now_ <= r.deadline_ns, "an admitted request ended after its deadline");
      check(r.forwards == 0 || a.how.reply == client_reply::relayed ||
                a.how.reply == client_reply::error_event || a.how.reply == client_reply::nothing,
            "a second head after the first content");
      if (std::exchange(r.retry_taken, false)) count_retry(-1);
      if (r.is_queued) leave_queue(index, 0);
      for (int i = 0; i < r.machine->begun(); ++i) cancel(index, i);
      return drain();
  }
}

simulation::choice simulation::find_target(std::size_t index) const {
  const auto& r = requests_[index];
  choice out;
  std::vector<pool_member> pool;
  std::array<bool, 16> marks{};
  const std::span<bool> overruled{marks.data(), targets_.size()};
  std::size_t ejected = 0, ready = 0;
  for (const auto& t : targets_) {
    const auto s = t.health.look(now_);
    const bool is_ready = now_ >= t.key_out_until_ns && (s.usable || s.ejected);
    pool.push_back({.ready = is_ready, .ejected = s.ejected, .from_ns = s.from_ns});
    out.ready_at_ns = std::min(out.ready_at_ns, std::max(s.from_ns, t.key_out_until_ns));
  }
  overrule_ejections(pool, overruled);
  std::size_t fallback = k_no_target;
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    const auto s = targets_[i].health.look(now_);
    ready += pool[i].ready ? 1 : 0;
    ejected += pool[i].ready && pool[i].ejected && !overruled[i] ? 1 : 0;
    const bool is_usable = pool[i].ready && (s.usable || overruled[i]);
    if (!is_usable || !r.machine->may_use(i, targets_[i].window_tokens, now_)) continue;
    out.any = true;
    if (targets_[i].busy >= options_.slots) continue;
    const auto is_less = [&](std::size_t than) {
      return than == k_no_target || targets_[i].busy < targets_[than].busy;
    };
    if (is_less(fallback)) fallback = i;
    if (takes_part(s, r.machine->begun() > 0, index, i) && is_less(out.target)) out.target = i;
  }
  check(ejected <= ejections_max(ready), "too many of the pool are ejected");
  check(ready == 0 || ejected < ready, "the pool is emptied by ejection");
  if (out.target == k_no_target) out.target = fallback;
  out.overruled = out.target != k_no_target && overruled[out.target];
  return out;
}

void simulation::choose(std::size_t index) {
  const auto found = find_target(index);
  if (found.target != k_no_target) return begin_run(index, found.target, found.overruled);
  const auto& runs = requests_[index].runs;
  const bool is_hedge = std::any_of(runs.begin(), runs.end(), [](auto& run) { return run.is_live; });
  if (found.any && !is_hedge) return enqueue(index);
  none_usable(index, found.ready_at_ns);
}

void simulation::none_usable(std::size_t index, std::int64_t ready_at_ns) {
  if (std::exchange(requests_[index].retry_taken, false)) count_retry(-1);
  act(index, requests_[index].machine->none_placed(ready_at_ns, now_));
}

void simulation::begin_run(std::size_t index, std::size_t target, bool overruled) {
  auto& r = requests_[index];
  auto& t = targets_[target];
  const auto under = t.health.acquire(now_, overruled);
  check(under.has_value(), "a breaker that may be used refuses");
  const bool was_retry = std::exchange(r.retry_taken, false);
  const bool is_hedge = !was_retry && r.machine->begun() > 0;
  const auto next = r.machine->placed(target, t.window_tokens, now_);
  if (next.attempt == k_no_attempt || next.what != step::wait) {
    t.health.ended(*under, breaker_effect::neutral, now_);
    if (was_retry) count_retry(-1);
    return act(index, next);
  }
  check(r.forwards == 0 && r.ends == 0, "an attempt begins after the first content");
  check(r.machine->begun() <= options_.terms.attempts_max, "more attempts than allowed");
  totals_.retries += was_retry ? 1 : 0;
  totals_.hedges += is_hedge ? 1 : 0;
  ++t.busy;
  ++t.permits;
  if (under->as == permit::use::probe) {
    ++t.probes;
    ++totals_.probes;
  }
  check(t.probes <= 1, "two probes of a half-open target");  // streams are far shorter than probe_settled_ns
  auto& run = r.runs[static_cast<std::size_t>(next.attempt)];
  run = {.target = target, .under = *under, .is_live = true, .begun_ns = now_, .heard_ns = now_};
  post(next.content_by_ns,
       {.what = kind::timeout, .request = index, .attempt = next.attempt, .turn = run.turn});
  act(index, next);
  serve(index, next.attempt);
}

}  // namespace weir::policy::failover
