// What the simulated targets do, and the queue before them.
#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/policy/failover/simulation.hpp"

namespace weir::policy::failover {

namespace {

constexpr std::int64_t k_hop = k_sim_ms;
constexpr std::int64_t k_dial_limit = 5 * k_sim_s;
constexpr std::int64_t k_key_out = 5 * k_sim_s;  // shorter than k_key_out_ns, to see it come back

double seconds(std::int64_t ns) {
  return static_cast<double>(ns) / static_cast<double>(k_sim_s);
}

attempt_end status(int code, std::string_view message = {}, std::int64_t retry_after_ns = 0) {
  return {.how = ending::status, .status = code, .message = message, .retry_after_ns = retry_after_ns};
}

}  // namespace

void simulation::serve(std::size_t index, int attempt) {
  auto& r = requests_[index];
  auto& run = r.runs[static_cast<std::size_t>(attempt)];
  const auto& t = targets_[run.target];
  const event mine{.request = index, .attempt = attempt, .turn = run.turn};
  auto at = [&](std::int64_t after_ns, kind what, const attempt_end& how = {}) {
    auto e = mine;
    e.what = what;
    e.end = how;
    post(now_ + after_ns, e);
  };
  at(0, kind::check);
  if (t.is != fault::healthy && t.is != fault::slow && !(t.is == fault::closing && run.fresh)) {
    return serve_fault(index, attempt);
  }
  if (r.is_bad) return at(k_hop, kind::fail, status(400, "temperature must be at most 2"));
  if (r.work_tokens > static_cast<double>(t.window_tokens)) {
    return at(k_hop, kind::fail, status(400, "This model's maximum context length is 1 tokens."));
  }
  const double slow = t.is == fault::slow ? 40 : 1;
  const auto prefill_ns = static_cast<std::int64_t>(slow * r.work_tokens / options_.tokens_per_s * k_sim_s);
  at(k_hop + prefill_ns, kind::content);
  at(k_hop + prefill_ns + around(options_.stream_ns), kind::finish);
}

void simulation::serve_fault(std::size_t index, int attempt) {
  auto& run = requests_[index].runs[static_cast<std::size_t>(attempt)];
  const event mine{.what = kind::fail, .request = index, .attempt = attempt, .turn = run.turn};
  const auto fail = [&](std::int64_t after_ns, const attempt_end& how) {
    auto e = mine;
    e.end = how;
    post(now_ + after_ns, e);
  };
  switch (targets_[run.target].is) {
    case fault::dead:
      return fail(k_hop, {.how = ending::dial_failed});
    case fault::no_tls:
      return fail(2 * k_hop, {.how = ending::tls_failed});
    case fault::partitioned:
      return fail(k_dial_limit, {.how = ending::dial_failed});
    case fault::hanging:
      return fail(2 * k_hop, {.how = ending::reset_before_head});  // held back while it hangs
    case fault::erring:
      return fail(k_hop, status(500, "CUDA error"));
    case fault::unavailable:
      return fail(k_hop, status(502));
    case fault::limited:
      return fail(k_hop, status(429, {}, around(2 * k_sim_s)));
    case fault::queue_full:
      return fail(k_hop, status(503, {}, around(k_sim_s)));
    case fault::bad_key:
      return fail(k_hop, status(401, "Incorrect API key provided"));
    case fault::error_first:
      return fail(2 * k_hop, {.how = ending::error_event, .type = "server_error"});
    case fault::closing:
      return fail(0, {.how = ending::reset_reused});
    case fault::cutting: {
      if (random_() % 2 == 0) {
        auto e = mine;
        e.what = kind::content;
        post(now_ + k_hop, e);
      }
      return fail(around(50 * k_sim_ms), {.how = ending::stream_cut});
    }
    case fault::healthy:
    case fault::slow:
      return;
  }
}

void simulation::change(const fault_change& c) {
  auto& t = targets_[c.target];
  t.is = c.becomes;
  t.changed_ns = now_;
  if (c.becomes == fault::bad_key || c.becomes == fault::healthy) t.key_out_until_ns = 0;
  if (c.becomes != fault::dead) return drain();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    for (int n = 0; n < requests_[i].machine->begun(); ++n) {
      const auto& run = requests_[i].runs[static_cast<std::size_t>(n)];
      if (!run.is_live || run.target != c.target) continue;
      post(now_, {.what = kind::fail,
                  .request = i,
                  .attempt = n,
                  .turn = run.turn,
                  .end = {.how = ending::reset_before_head}});
    }
  }
}

void simulation::check_freeze(std::size_t index, int attempt) {
  auto& run = requests_[index].runs[static_cast<std::size_t>(attempt)];
  auto& t = targets_[run.target];
  if (run.streams && !is_silent(t)) {
    run.heard_ns = now_;
    t.watch.heard(now_);
  }
  const auto verdict = t.watch.check(run.heard_ns, now_);
  if (verdict.what == freeze_step::frozen) {
    const auto since_ns = std::max(run.heard_ns, t.changed_ns);
    totals_.frozen_seen_after_ns = std::max(totals_.frozen_seen_after_ns, now_ - since_ns);
    return end_run(index, attempt, {.how = ending::frozen, .after_content = run.streams});
  }
  const event again{.what = kind::check, .request = index, .attempt = attempt, .turn = run.turn};
  if (verdict.what == freeze_step::probe) {
    auto answer = again;
    answer.what = kind::probe;
    post(now_ + 20 * k_sim_ms, answer);
  }
  post(verdict.at_ns, again);
}

void simulation::release(sim_request::run& r, breaker_effect effect) {
  auto& t = targets_[r.target];
  r.is_live = false;
  ++r.turn;
  --t.busy;
  --t.permits;
  if (r.under.as == permit::use::probe) --t.probes;
  t.health.ended(r.under, effect, now_);
}

void simulation::cancel(std::size_t index, int attempt) {
  auto& run = requests_[index].runs[static_cast<std::size_t>(attempt)];
  if (run.is_live) release(run, breaker_effect::neutral);
}

void simulation::end_run(std::size_t index, int attempt, const attempt_end& how) {
  auto& r = requests_[index];
  auto& run = r.runs[static_cast<std::size_t>(attempt)];
  const auto why = classify(how);
  const auto& traits = traits_of(why);
  const auto next = why == failure_kind::none ? r.machine->finished(attempt, now_)
                                              : r.machine->failed(attempt, why, how.retry_after_ns, now_);
  check(next.what != step::none, "a running attempt is not known");
  if (next.what == step::reconnect) return act(index, next);
  release(run, traits.breaker);
  auto& t = targets_[run.target];
  const auto pause_ns = how.retry_after_ns > 0 ? how.retry_after_ns : options_.terms.pause_ns;
  if (traits.holds_target) t.health.hold(pause_ns, now_);
  if (traits.takes_key_out) t.key_out_until_ns = now_ + k_key_out;
  if (why == failure_kind::interrupted) ++totals_.interrupted;
  act(index, next);
  drain();
}

queued_request simulation::view_of(const sim_request& r) const {
  return {.rank = r.rank,
          .tenant = r.tenant,
          .work_tokens = r.work_tokens,
          .waited_s = seconds(now_ - r.arrived_ns),
          .left_s = seconds(r.deadline_ns - now_)};
}

std::vector<queued_request> simulation::queue_view() const {
  std::vector<queued_request> out;
  for (const auto index : queue_) out.push_back(view_of(requests_[index]));
  return out;
}

double simulation::expected_rate() const {
  const double each =
      options_.work_tokens / (options_.work_tokens / options_.tokens_per_s + seconds(options_.stream_ns));
  double sum = 0;
  for (const auto& t : targets_) sum += t.health.look(now_).usable ? each * options_.slots : 0;
  return sum;
}

void simulation::enqueue(std::size_t index) {
  auto& r = requests_[index];
  const bool is_new = r.machine->begun() == 0;
  if (is_new) {
    const double rate = meter_.tokens_per_s(expected_rate(), queue_.size(), seconds(now_));
    const auto out = admit(view_of(r), queue_view(), rate, options_.queue, random_());
    if (out.why != refusal::none) return shed(index, out.retry_after_s);
    if (out.victim != k_nobody)
      shed(*std::next(queue_.begin(), static_cast<long>(out.victim)), out.retry_after_s);
  }
  meter_.changed(queue_.size(), 0, seconds(now_));
  r.is_queued = true;
  if (is_new) {
    queue_.push_back(index);
  } else {
    queue_.push_front(index);
  }
}

void simulation::shed(std::size_t index, double retry_after_s) {
  ++totals_.shed;
  if (std::exchange(requests_[index].retry_taken, false)) count_retry(-1);
  act(index, requests_[index].machine->shed(static_cast<std::int64_t>(retry_after_s * k_sim_s)));
  check(requests_[index].ends == 1, "what was shed did not end");
}

void simulation::leave_queue(std::size_t index, double served_tokens) {
  meter_.changed(queue_.size(), served_tokens, seconds(now_));
  queue_.remove(index);
  requests_[index].is_queued = false;
}

// Highest rank first, in order of arrival, for as long as somebody moves.
void simulation::drain() {
  if (std::exchange(draining_, true)) return;
  for (bool moved = true; moved;) {
    moved = false;
    std::vector<std::size_t> order(queue_.begin(), queue_.end());
    std::stable_sort(order.begin(), order.end(),
                     [this](auto a, auto b) { return requests_[a].rank > requests_[b].rank; });
    for (const auto index : order) {
      const bool is_free =
          std::any_of(targets_.begin(), targets_.end(), [this](auto& t) { return t.busy < options_.slots; });
      if (!is_free) break;
      if (!requests_[index].is_queued) continue;
      const auto found = find_target(index);
      if (found.target == k_no_target && found.any) continue;
      moved = true;
      leave_queue(index, found.any ? requests_[index].work_tokens : 0);
      if (found.any) begin_run(index, found.target, found.overruled);
      if (!found.any) none_usable(index, found.ready_at_ns);
    }
  }
  draining_ = false;
}

}  // namespace weir::policy::failover
