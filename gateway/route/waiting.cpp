// Who may wait for a target, and what is counted of those that do (policy/failover/overload.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

#include "gateway/route/model_router_impl.hpp"

namespace weir::gateway::route {

namespace {

namespace failover = policy::failover;
using std::chrono::duration;
using std::chrono::steady_clock;

constexpr double k_ms_per_s = 1000;

}  // namespace

failover::queued_request model_router::to_queued(const ask& a, steady_clock::time_point deadline,
                                                 steady_clock::time_point now) const {
  return {.rank = failover::rank_of_priority(a.priority),
          .tenant = static_cast<std::uint32_t>(std::hash<std::string>()(a.tenant)),
          .weight = a.weight,
          .lead_tokens = fair_.lead_tokens(a.tenant),
          .work_tokens = a.work_tokens,
          .waited_s = duration<double>(now - a.begun).count(),
          .left_s = duration<double>(deadline - now).count()};
}

std::optional<error> model_router::let_in(const ask& newcomer, steady_clock::time_point deadline) {
  if (waiting_.empty()) return {};
  const auto now = steady_clock::now();
  const double rate = drain_.tokens_per_s(expected_tokens_per_s_, waiting_.size(), now_s());
  const auto wanted = to_queued(newcomer, deadline, now);
  if (failover::surely_fits(wanted, waiting_.size(), waiting_tokens_, rate, terms_.queue)) return {};
  std::vector<failover::queued_request> all;
  all.reserve(waiting_.size());
  for (const auto& w : waiting_) all.push_back(to_queued(w->request, w->deadline, now));
  const auto out = failover::admit(wanted, all, rate, terms_.queue, newcomer.seed);
  if (out.why == failover::refusal::too_late) return shed(observe::shed_why::too_late, out.retry_after_s);
  if (out.why == failover::refusal::queue_full) return shed(observe::shed_why::queue_full, out.retry_after_s);
  if (out.victim == failover::k_nobody) return {};
  const auto at = std::next(waiting_.begin(), static_cast<std::ptrdiff_t>(out.victim));
  const auto victim = *at;
  waiting_.erase(at);
  left(*victim);
  victim->refused = shed(observe::shed_why::queue_full, out.retry_after_s);
  wake(victim);
  return {};
}

error model_router::shed(observe::shed_why why, double retry_after_s) const {
  shared_.counters().shed[static_cast<std::size_t>(why)]->Increment();
  const double wait_s = std::max(retry_after_s, terms_.queue.retry_after_min_s);
  const bool waited = why == observe::shed_why::hopeless || why == observe::shed_why::timed_out;
  const auto reason = waited ? fmt::format("no target of '{}' got free in time", terms_.name)
                             : fmt::format("too many requests wait for '{}'", terms_.name);
  return {errc::overloaded,
          fmt::format("{}; retry in {:.0f} s", reason, std::ceil(wait_s)),
          {},
          static_cast<std::int64_t>(wait_s * k_ms_per_s)};
}

bool model_router::is_hopeless(const waiter& w) const {
  const double rate = drain_.tokens_per_s(expected_tokens_per_s_, waiting_.size(), now_s());
  const auto self = to_queued(w.request, w.deadline, steady_clock::now());
  return failover::hopeless({&self, 1}, rate) != failover::k_nobody;
}

void model_router::list(const std::shared_ptr<waiter>& w) {
  drain_.changed(waiting_.size(), 0, now_s());
  waiting_.push_back(w);
  w->listed = true;
  waiting_tokens_ += w->request.work_tokens;
  fair_.arrived(member_of(w->request), now_s());
  waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
  shared_.counters().waiting->Increment();
}

void model_router::unlist(waiter& w, double served_tokens) {
  drain_.changed(waiting_.size() + 1, served_tokens, now_s());
  w.listed = false;
  waiting_tokens_ = waiting_.empty() ? 0 : std::max(0.0, waiting_tokens_ - w.request.work_tokens);
  waiting_count_.store(waiting_.size(), std::memory_order_relaxed);
  shared_.counters().waiting->Decrement();
}

void model_router::left(waiter& w) {
  unlist(w, 0);
  fair_.left(member_of(w.request));
}

}  // namespace weir::gateway::route
