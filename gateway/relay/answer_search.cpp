#include "gateway/relay/answer_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <charconv>
#include <utility>

#include "gateway/relay/relay.hpp"
#include "gateway/task_group.hpp"

namespace weir::gateway::relay {

namespace {

using policy::failover::client_reply;
using policy::failover::ending;
using policy::failover::step;
using route::now_ns;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::int64_t k_ns_per_ms = 1'000'000;
constexpr std::int64_t k_ns_per_s = 1'000'000'000;
constexpr std::int64_t k_retry_after_s_max = 300;  // as long as a breaker holds a target
constexpr int k_too_large_status = 413;
constexpr int k_unavailable_status = 503;

std::int64_t to_ns(upstream::time_point at) noexcept {
  return std::chrono::nanoseconds(at.time_since_epoch()).count();
}

// A number of seconds or milliseconds; dates are not read.
std::int64_t number_of(std::string_view text) noexcept {
  std::int64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  return ec == std::errc() && end == text.data() + text.size() && value > 0 ? value : 0;
}

std::int64_t retry_after_ns(const http::header_list& headers) noexcept {
  std::int64_t found_ns = 0;
  for (const auto& [name, value] : headers) {
    if (name == "retry-after-ms") return std::min(number_of(value), k_retry_after_s_max * 1000) * k_ns_per_ms;
    if (name == "retry-after") found_ns = std::min(number_of(value), k_retry_after_s_max) * k_ns_per_s;
  }
  return found_ns;
}

milliseconds part_of(const placed_request& request, const upstream::time_limits& limits) {
  return request.call->stream ? limits.first_token : limits.whole;
}

// All of a request's attempts together get what the most patient of the targets would.
upstream::time_point deadline_of(const placed_request& request, const upstream::time_limits& general) {
  auto most = part_of(request, general);
  for (const auto& t : request.entry.router->targets()) {
    most = std::max(most, part_of(request, t.target->limits(general)));
  }
  return steady_clock::now() + most;
}

policy::failover::attempt_terms terms_of(const placed_request& request, int attempts_max) {
  const auto after_ms = request.hedge_units > 0 ? request.context.snap->config.failover.hedge_after_ms : 0;
  return {.attempts_max = attempts_max,
          .pause_ns = policy::failover::k_never_ns,
          .hedge_after_ns = after_ms * k_ns_per_ms};
}

policy::failover::attempt_budgets budgets_of(const placed_request& request) {
  return {.retries = request.context.snap->retries.get(),
          .hedges = request.hedge_units > 0 ? request.entry.hedges.get() : nullptr,
          .cost = request.hedge_units};
}

}  // namespace

upstream::time_limits general_limits(const config::limits_config& limits) {
  return {.whole = milliseconds(limits.request_timeout_ms),
          .first_token = milliseconds(limits.first_token_timeout_ms),
          .inter_token = milliseconds(limits.inter_token_timeout_ms)};
}

answer_search::answer_search(const placed_request& request)
    : request_(request),
      router_(*request.entry.router),
      general_(general_limits(request.context.snap->config.limits)),
      placed_by_(steady_clock::now() + part_of(request, general_)),
      deadline_(deadline_of(request, general_)),
      attempts_max_(static_cast<int>(request.context.snap->config.failover.attempts)),
      plan_(terms_of(request, attempts_max_), budgets_of(request), to_ns(deadline_)) {}

task<std::expected<answer, refusal>> answer_search::run() {
  action act = plan_.begin(now_ns());
  while (!stopped_) {
    if (act.what == step::pick) {
      act = co_await pick(main_);
    } else if (act.what == step::wait && act.attempt != policy::failover::k_no_attempt) {
      if (act.wake_ns < to_ns(deadline_) && request_.hedge_units > 0) {
        act = co_await race(act);
      } else {
        act = co_await try_target(main_);
      }
    } else if (act.what == step::wait) {
      act = co_await pause(act.wake_ns);
    } else if (act.what == step::forward) {
      count_denied();
      co_return take_winner(act.attempt);
    } else if (act.what == step::end) {
      count_denied();
      co_return std::unexpected(conclude(act.how));
    } else {
      co_return std::unexpected(refusal{{errc::internal, "an attempt went astray", {}}, {}});
    }
  }
  co_return std::unexpected(refusal{*stopped_, {}});
}

task<answer_search::action> answer_search::pick(course_state& to) {
  if (plan_.begun() > 0) {
    const result<void> renewed = co_await request_.ticket.renew();
    if (!renewed) co_return plan_.none_placed(0, now_ns());
  }
  // One that runs beside another waits for no place.
  const bool beside = to.as == limits::course::beside;
  const auto by = beside ? steady_clock::now() : plan_.begun() == 0 ? placed_by_ : deadline_;
  auto placed = co_await router_.place(*request_.call, request_.context.caller, request_.prompt, by, plan_);
  if (!placed && runs_beside(to)) co_return plan_.none_placed(0, now_ns());
  if (!placed) {
    stopped_ = std::move(placed.error());
    co_return action{};
  }
  if (!*placed) {
    none_ = std::move(placed->error());
    co_return plan_.none_placed(router_.ready_at_ns(), now_ns());
  }
  to.attempt.emplace(std::move(**placed));
  const auto context_tokens = to.attempt->target().view().context_tokens;
  const action act = plan_.placed(to.attempt->target_index(), context_tokens, now_ns());
  to.id = act.attempt;
  request_.context.probe.set_attempts(plan_.begun());
  if (to.as == limits::course::main) show(*to.attempt);
  co_return act;
}

// Where it went, in the log line.
void answer_search::show(const route::attempt& at) {
  auto& probe = request_.context.probe;
  probe.set_target(std::string(at.choice().name));
  probe.set_predicted_reuse(at.choice().prefix.reusable_tokens);
  probe.set_decision(policy::to_text(at.choice().prefix.from), at.choice().ttft_s);
  probe.set_contract(at.contract());
  probe.set_provider(at.target().provider());
  probe.set_hosted(router_.targets()[at.target_index()].state->hosted());
}

void answer_search::count_denied() const {
  const auto& counters = request_.context.state.metrics.route();
  if (plan_.hedge_denied()) counters.hedges_denied->Increment();
  if (!plan_.retry_denied()) return;
  counters.retries_denied->Increment();
  request_.context.probe.set_retry_denied();
}

answer answer_search::take_winner(int id) {
  const bool is_beside = beside_ && beside_->id == id;
  auto& won = is_beside ? *beside_ : main_;
  if (is_beside) {
    request_.ticket.beside_won();
    request_.context.state.metrics.route().hedges_won->Increment();
    show(*won.attempt);
  }
  if (auto* const lost = is_beside ? &main_ : beside_.get()) {
    lost->response.reset();
    lost->attempt.reset();
    lost->span = {};
  }
  return {std::move(*won.attempt), std::move(won.response), won.first, won.limits, std::move(won.span)};
}

bool answer_search::runs_beside(const course_state& on) const noexcept {
  const auto* other = on.as == limits::course::main ? beside_.get() : &main_;
  return other != nullptr && other->attempt.has_value();
}

bool answer_search::decides(const action& found) {
  if (stopped_) return true;
  if (found.what == step::none) return false;
  next_ = found;
  return found.what != step::wait;
}

task<bool> answer_search::lead() {
  const action found = co_await try_target(main_);
  co_return decides(found);
}

task<bool> answer_search::follow() {
  action act = next_;
  const auto last_ns = to_ns(deadline_);
  while (act.what == step::wait && act.wake_ns < last_ns) act = co_await pause(act.wake_ns);
  if (act.what != step::pick) co_return false;
  beside_ = std::make_unique<course_state>();
  beside_->as = limits::course::beside;
  while (act.what == step::pick && main_.attempt) {
    act = co_await pick(*beside_);
    if (act.what != step::wait || act.attempt == policy::failover::k_no_attempt) continue;
    request_.context.state.metrics.route().hedges->Increment();
    request_.context.probe.set_hedged();
    act = co_await try_target(*beside_);
  }
  co_return decides(act);
}

task<answer_search::action> answer_search::race(action begun) {
  next_ = begun;
  co_await run_until_one_decides(lead(), follow());
  co_return next_;
}

task<answer_search::action> answer_search::try_target(course_state& on) {
  auto& target = on.attempt->target();
  auto& ticket = request_.ticket;
  auto& probe = request_.context.probe;
  // The name is made for a trace alone.
  auto name = probe.trace().recorded() ? fmt::format("attempt {}", request_.entry.name) : std::string();
  on.span = probe.trace().begin_attempt(std::move(name), on.attempt->choice().name);
  probe.target_starts(on.attempt->waited_s());
  on.limits = target.limits(general_);
  const auto deadline = std::min(deadline_, steady_clock::now() + part_of(request_, on.limits));
  upstream::dispatch dispatch{
      .call = request_.call,
      .model = request_.entry.name,
      .id_prefix = request_.id_prefix,
      .request_id = request_.context.exchange.request_id(),
      .members = on.attempt->members(),
      .output_tokens_max = request_.output_tokens_max,
      .trace_lines = probe.trace().header_lines(),
      .deadline = deadline,
      .may_move = router_.targets().size() > 1 && plan_.begun() < attempts_max_,
      .sent = ticket.sending(request_.entry.prices[on.attempt->target_index()], on.as)};
  on.attempt->starts();
  auto started = co_await target.start(std::move(dispatch));
  if (!started && started.error().how == ending::no_place) {
    on.span.ended("no_place");
    on.attempt.reset();
    co_return plan_.unplaced(on.id);
  }
  if (!started) co_return failed(on, std::move(started.error()));
  on.response = std::move(*started);
  const auto piece = co_await on.response->next(deadline);
  ticket.note(on.response->usage(), on.response->shown(), on.as);
  if (piece) {
    on.first = *piece;
    co_return plan_.content(on.id, now_ns());
  }
  auto failure = on.response->failure();
  if (failure.how == ending::error_event) ticket.target_refused(on.as);
  if (failure.how == ending::status && on.response->head().status >= 300) {
    const auto& head = on.response->head();
    reply_ = http::reply{.status = head.status,
                         .content_type = head.content_type,
                         .body = on.response->take_body(),
                         .headers = head.headers};
  }
  co_return failed(on, std::move(failure));
}

task<answer_search::action> answer_search::pause(std::int64_t until_ns) {
  const io_executor executor = co_await asio::this_coro::executor;
  io_timer timer(executor, upstream::time_point(std::chrono::nanoseconds(until_ns)));
  co_await timer.async_wait(use_task);
  co_return plan_.tick(now_ns());
}

answer_search::action answer_search::failed(course_state& on, upstream::attempt_failure failure) {
  if (failure.how == ending::cancelled) {
    if (!runs_beside(on)) {
      stopped_ = std::move(failure.why);
      return {};
    }
    on.response.reset();
    on.attempt.reset();
    return plan_.failed(on.id, policy::failover::failure_kind::unavailable, 0, now_ns());
  }
  const auto at_ns = now_ns();
  if (failure.how == ending::first_content_timeout) failure.how = plan_.timeout_of(on.id, at_ns);
  if (failure.how != ending::status) reply_.reset();
  const auto after_ns = reply_ ? retry_after_ns(reply_->headers) : failure.why.retry_after_ms * k_ns_per_ms;
  const auto& message = failure.message.empty() ? failure.why.message : failure.message;
  const auto kind = policy::failover::classify({.how = failure.how,
                                                .status = failure.status,
                                                .code = failure.code,
                                                .type = failure.type,
                                                .message = message,
                                                .retry_after_ns = after_ns});
  const auto& traits = policy::failover::traits_of(kind);
  // Where there is no other target, its own answer says more than ours would.
  const bool is_busy =
      traits.holds_target && failure.status != k_too_large_status;  // else it is this request
  const bool holds = is_busy && router_.targets().size() > 1;
  // What is between the target and us stays there.
  if (failure.how == ending::error_event && (traits.holds_target || traits.takes_key_out)) {
    failure.why.message = fmt::format("target '{}' takes no request for now", on.attempt->choice().name);
  }
  on.attempt->failed(traits.breaker, !holds ? 0 : after_ns > 0 ? after_ns : k_ns_per_s);
  const bool has_other_key = traits.takes_key_out && on.response && on.response->key_refused();
  request_.context.state.metrics.route().failures[static_cast<std::size_t>(kind)]->Increment();
  failure_ = std::move(failure);
  on.span.ended(policy::failover::to_text(kind));
  on.response.reset();
  on.attempt.reset();
  auto next = plan_.failed(on.id, kind, after_ns, at_ns, has_other_key);
  if (next.what == step::pick) request_.context.state.metrics.route().retries->Increment();
  return next;
}

refusal answer_search::conclude(const policy::failover::outcome& how) const {
  const auto retry_ms = how.retry_after_ns / k_ns_per_ms;
  if (how.never_placed) {
    auto why = none_ ? why_none(*none_, request_.entry.name)
                     : error{errc::overloaded, "no target is ready; retry in a moment", {}};
    if (info(why.code).status == k_unavailable_status) why.retry_after_ms = retry_ms;
    return {std::move(why), {}};
  }
  if (how.why == policy::failover::failure_kind::out_of_time) {
    const auto& said = failure_.why.message;
    return {{errc::deadline_exceeded, said.empty() ? "no answer in time" : said, {}}, {}};
  }
  if (how.reply == client_reply::context_length) {
    const auto& said = failure_.message.empty() ? failure_.why.message : failure_.message;
    return {{errc::context_length, said, failure_.why.param}, {}};
  }
  auto out = reply_ ? conclude_answered(how.reply) : refusal{failure_.why, {}};
  if (!out.reply && info(out.why.code).status == k_unavailable_status && retry_ms > 0) {
    out.why.retry_after_ms = retry_ms;
  }
  return out;
}

// The last target tried did answer: with what is the client's to read, or between the target and us.
refusal answer_search::conclude_answered(client_reply reply) const {
  if (reply == client_reply::pass_through || reply_->status >= 500) return {failure_.why, reply_};
  auto why = failure_.why;
  if (reply == client_reply::timed_out) why.code = errc::deadline_exceeded;
  if (reply == client_reply::unavailable) {
    why.code = errc::overloaded;
    why.message += ": it takes no more for now; retry later";
  }
  return {std::move(why), {}};
}

}  // namespace weir::gateway::relay
