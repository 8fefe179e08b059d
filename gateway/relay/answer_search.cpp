#include "gateway/relay/answer_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <charconv>
#include <utility>

#include "gateway/relay/relay.hpp"

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
      plan_({.attempts_max = attempts_max_, .pause_ns = policy::failover::k_never_ns},
            {.retries = request.context.snap->retries.get()}, to_ns(deadline_)) {}

task<std::expected<answer, refusal>> answer_search::run() {
  action act = plan_.begin(now_ns());
  while (!stopped_) {
    if (act.what == step::pick) {
      act = co_await pick();
    } else if (act.what == step::wait && act.attempt != policy::failover::k_no_attempt) {
      act = co_await try_target(act.attempt);
    } else if (act.what == step::wait) {
      act = co_await pause(act.wake_ns);
    } else if (act.what == step::forward) {
      co_return answer{std::move(*attempt_), std::move(response_), first_, limits_};
    } else if (act.what == step::end) {
      co_return std::unexpected(conclude(act.how));
    } else {
      co_return std::unexpected(refusal{{errc::internal, "an attempt went astray", {}}, {}});
    }
  }
  co_return std::unexpected(refusal{*stopped_, {}});
}

task<answer_search::action> answer_search::pick() {
  if (plan_.begun() > 0) {
    const result<void> renewed = co_await request_.ticket.renew();
    if (!renewed) co_return plan_.none_placed(0, now_ns());
  }
  const auto by = plan_.begun() == 0 ? placed_by_ : deadline_;
  auto placed = co_await router_.place(*request_.call, request_.context.caller, request_.prompt, by, plan_);
  if (!placed) {
    stopped_ = std::move(placed.error());
    co_return action{};
  }
  if (!*placed) {
    none_ = std::move(placed->error());
    co_return plan_.none_placed(router_.ready_at_ns(), now_ns());
  }
  attempt_.emplace(std::move(**placed));
  auto& probe = request_.context.probe;
  probe.set_target(std::string(attempt_->choice().name));
  probe.set_predicted_reuse(attempt_->choice().prefix.reusable_tokens);
  probe.set_attempt(plan_.begun() + 1, router_.targets()[attempt_->target_index()].state->hosted());
  const auto context_tokens = attempt_->target().view().context_tokens;
  co_return plan_.placed(attempt_->target_index(), context_tokens, now_ns());
}

task<answer_search::action> answer_search::try_target(int id) {
  auto& target = attempt_->target();
  auto& ticket = request_.ticket;
  limits_ = target.limits(general_);
  const auto deadline = std::min(deadline_, steady_clock::now() + part_of(request_, limits_));
  upstream::dispatch dispatch{.call = request_.call,
                              .model = request_.entry.name,
                              .id_prefix = request_.id_prefix,
                              .request_id = request_.context.exchange.request_id(),
                              .members = attempt_->members(),
                              .output_tokens_max = request_.output_tokens_max,
                              .deadline = deadline,
                              .may_move = router_.targets().size() > 1 && plan_.begun() < attempts_max_,
                              .sent = ticket.sending(request_.entry.prices[attempt_->target_index()])};
  attempt_->starts();
  auto started = co_await target.start(std::move(dispatch));
  if (!started && started.error().how == ending::no_place) {
    attempt_.reset();
    co_return plan_.unplaced(id);
  }
  if (!started) co_return failed(id, std::move(started.error()));
  response_ = std::move(*started);
  const auto piece = co_await response_->next(deadline);
  ticket.note(response_->usage(), response_->shown());
  if (piece) {
    first_ = *piece;
    co_return plan_.content(id, now_ns());
  }
  auto failure = response_->failure();
  if (failure.how == ending::error_event) ticket.target_refused();
  if (failure.how == ending::status && response_->head().status >= 300) {
    const auto& head = response_->head();
    reply_ = http::reply{.status = head.status,
                         .content_type = head.content_type,
                         .body = response_->take_body(),
                         .headers = head.headers};
  }
  co_return failed(id, std::move(failure));
}

task<answer_search::action> answer_search::pause(std::int64_t until_ns) {
  const io_executor executor = co_await asio::this_coro::executor;
  io_timer timer(executor, upstream::time_point(std::chrono::nanoseconds(until_ns)));
  co_await timer.async_wait(use_task);
  co_return plan_.tick(now_ns());
}

answer_search::action answer_search::failed(int id, upstream::attempt_failure failure) {
  if (failure.how == ending::cancelled) {
    stopped_ = std::move(failure.why);
    return {};
  }
  const auto at_ns = now_ns();
  if (failure.how == ending::first_content_timeout) failure.how = plan_.timeout_of(id, at_ns);
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
    failure.why.message = fmt::format("target '{}' takes no request for now", attempt_->choice().name);
  }
  attempt_->failed(traits.breaker, !holds ? 0 : after_ns > 0 ? after_ns : k_ns_per_s);
  const bool has_other_key = traits.takes_key_out && response_ && response_->key_refused();
  request_.context.state.metrics.route().failures[static_cast<std::size_t>(kind)]->Increment();
  failure_ = std::move(failure);
  response_.reset();
  attempt_.reset();
  auto next = plan_.failed(id, kind, after_ns, at_ns, has_other_key);
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
