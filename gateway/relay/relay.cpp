#include "gateway/relay/relay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <iterator>

#include "engine/text/printable.hpp"
#include "gateway/api/error_body.hpp"
#include "gateway/http/syntax.hpp"
#include "gateway/limits/ticket.hpp"
#include "gateway/relay/answer_search.hpp"
#include "gateway/shadow/watch.hpp"
#include "policy/router.hpp"

namespace weir::gateway::relay {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// For the end of a target's body behind its last event.
constexpr milliseconds k_settle{200};

void append(http::header_list& to, http::header_list more) {
  std::move(more.begin(), more.end(), std::back_inserter(to));
}

// One request on its way: what its key may use, and the target that it goes to.
struct passage {
  limits::ticket& ticket;
  route::attempt& attempt;
  trace::attempt_span& span;
  shadow::watch& copy;
};

void note_usage(api::request_context& context, const upstream::response& response, passage& through) {
  const auto usage = response.usage();
  through.ticket.note(usage, response.shown());
  context.probe.set_tokens(std::max<std::int64_t>(0, usage.prompt_tokens),
                           std::max<std::int64_t>(0, usage.completion_tokens));
  context.probe.set_cached(usage.cached_tokens);
}

task<void> pump_body(api::request_context& context, upstream::response& response, passage& through) {
  const auto& head = response.head();
  note_usage(context, response, through);
  through.attempt.finished(response.usage(), false);
  through.span.ended();
  http::reply reply{.status = head.status,
                    .content_type = head.content_type,
                    .body = response.take_body(),
                    .headers = head.headers};
  append(reply.headers, through.ticket.headers());
  through.copy.whole(reply.body);
  const auto sent = co_await context.exchange.send(std::move(reply));
  if (!sent) context.probe.set_outcome(info(sent.error().code).code);
  if (sent) through.copy.answered(through.attempt, response);
}

std::string error_event(const error& e) {
  return "data: " + api::error_json(e) + "\n\n";
}

// A started stream that cannot go on: one error event, then an aborted body, so that no client takes it for
// complete.
task<void> break_stream(api::request_context& context, const error& e, bool error_sent) {
  context.probe.set_outcome(info(e.code).code);
  context.probe.set_detail(e.message);
  if (e.code != errc::client_gone && !error_sent) {
    co_await context.exchange.write_error(&error_event, e);
  }
  context.exchange.abort();
}

result<void> start_stream(api::request_context& context, const upstream::reply_head& head,
                          http::header_list limits) {
  http::header_list headers = head.headers;
  append(headers, std::move(limits));
  headers.emplace_back("cache-control", "no-cache");
  headers.emplace_back("x-accel-buffering", "no");
  return context.exchange.start_stream(head.status, head.content_type, std::move(headers));
}

// Of a stream that broke: what its target's health makes of it.
policy::failover::breaker_effect effect_of(const upstream::attempt_failure& failure) {
  const auto kind = policy::failover::classify({.how = failure.how,
                                                .after_content = true,
                                                .status = failure.status,
                                                .code = failure.code,
                                                .type = failure.type,
                                                .message = failure.message});
  return policy::failover::traits_of(kind).breaker;
}

task<void> pump_stream(api::request_context& context, upstream::response& response, passage& through,
                       std::string_view first, milliseconds inter_token) {
  result<std::string_view> piece = first;
  context.probe.first_token();
  through.attempt.first_token();
  through.span.first_token();
  // What holds if the client leaves: this coroutine then unwinds at any await below, without another line of
  // it running.
  context.probe.set_outcome(info(errc::client_gone).code);
  note_usage(context, response, through);
  auto sent = start_stream(context, response.head(), through.ticket.headers());
  context.exchange.on_cut(&error_event);
  while (sent && piece && !piece->empty()) {
    if (response.complete()) break;
    through.copy.came();
    if (auto done = context.exchange.write_now(*piece)) {
      sent = std::move(*done);
    } else {
      sent = co_await context.exchange.write_rest();
    }
    through.copy.passed(*piece);
    if (sent) piece = co_await response.next(steady_clock::now() + inter_token);
    note_usage(context, response, through);
  }
  if (piece) through.attempt.finished(response.usage(), true);
  if (piece && sent) through.span.ended();
  if (!piece) through.attempt.failed(effect_of(response.failure()));
  if (!piece) through.span.ended(info(piece.error().code).code);
  if (!sent || !piece) {
    const error e = sent ? piece.error() : sent.error();
    co_await break_stream(context, e, response.error_sent());
    if (sent) through.copy.broke(through.attempt, response);
    co_return;
  }
  through.copy.came();
  sent = co_await context.exchange.finish(*piece);
  if (!sent) co_return;
  // The client has all of it, whenever it leaves now.
  context.probe.set_outcome({});
  through.copy.passed(*piece);
  through.copy.answered(through.attempt, response);
  co_await response.settle(steady_clock::now() + k_settle);
}

// What the request cost goes to the counts of traffic, and of a key with limits to the log, however it ends.
struct cost_report {
  observe::request_probe& probe;
  const limits::ticket& ticket;
  ~cost_report() {
    const auto cost = ticket.cost();
    probe.set_charge(cost.amount);
    if (!ticket.counted()) return;
    probe.set_cost(policy::limits::to_usd(cost.amount), cost.unpriced);
  }
};

// The most that a request may use. What an answer may hold is what the client says, else what fits.
limits::need need_of(const api::request_context& context, const api::generation_call& call,
                     const route::prompt_identity& prompt, const model_entry& entry) {
  limits::need out{.dearest = entry.prices};
  if (call.kind == api::generation_kind::count_tokens) return out;
  out.estimate = prompt.keys.how != keyed_how::tokens;
  const auto& configured = context.snap->config.limits;
  // Each token is at least a byte of the body that it comes from, but for what comes from an image.
  const auto text_tokens = static_cast<std::int64_t>(out.estimate ? call.body.size() : prompt.keys.tokens);
  out.prompt_tokens = text_tokens + limits::product_of(call.media_parts, configured.image_tokens);
  if (call.kind == api::generation_kind::embeddings) return out;
  std::int64_t each = call.output_tokens_max;
  if (each == 0) {
    each = configured.default_output_tokens;
    const auto prompt_tokens = static_cast<std::int64_t>(prompt.keys.tokens);
    if (entry.context_tokens > 0)
      each = std::clamp<std::int64_t>(entry.context_tokens - prompt_tokens, 1, each);
  }
  out.output_tokens = limits::product_of(each, call.choices);
  return out;
}

// What a second target beside the first may cost; 0: there shall be none. A key with a budget has set aside
// what one costs.
std::int64_t hedge_units_of(const model_entry& entry, const limits::need& most,
                            const limits::ticket& ticket) {
  if (!entry.hedges || ticket.has_budget() || entry.router->targets().size() < 2) return 0;
  const auto price = limits::dearest_price(most);
  const std::int64_t units = price > 0 ? price : most.prompt_tokens + most.output_tokens;
  return std::clamp<std::int64_t>(units, 1, policy::failover::share_budget::k_units_max);
}

// Nobody answered: the gateway's own error, or the one that the last target gave.
task<void> give_up(api::request_context& context, refusal end, limits::ticket& ticket) {
  if (!end.reply) {
    co_await refuse(context, end.why, ticket.headers());
    co_return;
  }
  context.probe.set_outcome("target_error");
  append(end.reply->headers, ticket.headers());
  const auto sent = co_await context.exchange.send(std::move(*end.reply));
  if (!sent) context.probe.set_outcome(info(sent.error().code).code);
}

task<void> relay_admitted(api::request_context& context, std::shared_ptr<const api::generation_call> call,
                          std::string_view id_prefix, const model_entry& entry, limits::ticket& ticket) {
  auto prompt = co_await entry.router->identify(*call, context.caller);
  if (call->searches && ticket.has_budget()) {
    const error e{errc::bad_request, "web searches have a price that the budget of this key cannot bound",
                  "tools"};
    co_await refuse(context, e, ticket.headers());
    co_return;
  }
  const auto most = need_of(context, *call, *prompt, entry);
  if (most.estimate && ticket.counted()) context.probe.set_estimated();
  const result<void> taken = co_await ticket.take_tokens(most);
  if (!taken) {
    context.state.metrics.limit_refused(taken.error().code);
    co_await refuse(context, taken.error(), ticket.headers());
    co_return;
  }
  context.probe.set_traffic(context.state.keys.traffic,
                            context.caller.terms->residency == auth::residency::local_only);
  // With a budget an answer is no longer than what was set aside for it.
  const bool bounded = ticket.has_budget() && !call->output_bounded;
  const placed_request request{.context = context,
                               .entry = entry,
                               .call = call,
                               .prompt = std::move(prompt),
                               .ticket = ticket,
                               .id_prefix = id_prefix,
                               .output_tokens_max = bounded ? most.output_tokens / call->choices : 0,
                               .hedge_units = hedge_units_of(entry, most, ticket)};
  const io_executor executor = co_await asio::this_coro::executor;
  shadow::watch copy(context, entry, call, request.output_tokens_max, executor);
  answer_search search(request);
  auto found = co_await search.run();
  if (!found) {
    const error why = found.error().why;
    const int status = found.error().reply ? found.error().reply->status : 0;
    co_await give_up(context, std::move(found.error()), ticket);
    copy.unanswered(why, status);
    co_return;
  }
  passage through{ticket, found->attempt, found->span, copy};
  auto& response = *found->response;
  if (context.said_as_asked != nullptr) *context.said_as_asked = response.head().said_as_asked;
  if (response.head().events) {
    co_await pump_stream(context, response, through, found->first, found->limits.inter_token);
  } else {
    co_await pump_body(context, response, through);
  }
}

}  // namespace

error why_none(const policy::decision& decision, std::string_view model) {
  // The reason that holds for the last target asked: with one target the reason, with several one of theirs.
  const auto why = decision.candidates.empty() ? policy::verdict::not_ready : decision.candidates.back().why;
  switch (why) {
    case policy::verdict::no_endpoint:
      return {errc::unsupported, fmt::format("no target of '{}' serves this path", model), {}};
    case policy::verdict::no_images:
      return {errc::unsupported, fmt::format("'{}' takes no images; send text content only", model),
              "messages"};
    case policy::verdict::no_structured_output:
      return {errc::unsupported,
              fmt::format("'{}' cannot guarantee a JSON format; leave out response_format", model),
              "response_format"};
    case policy::verdict::no_forced_tools:
      return {errc::unsupported,
              fmt::format("'{}' cannot guarantee a tool call; use tool_choice 'auto'", model), "tool_choice"};
    case policy::verdict::context_too_small:
      return {errc::context_length, fmt::format("the request does not fit the context of '{}'", model),
              "messages"};
    case policy::verdict::at_capacity:
    case policy::verdict::no_state_slot:
    case policy::verdict::no_context_pages:
    case policy::verdict::kept_for_replication:
      return {errc::overloaded, fmt::format("every target of '{}' is busy; retry in a moment", model), {}};
    case policy::verdict::rule:
    case policy::verdict::residency:
      return {errc::unsupported, fmt::format("no target of '{}' may serve this request", model), {}};
    case policy::verdict::too_expensive:
      return {errc::unsupported, fmt::format("this request would cost more than '{}' allows", model), {}};
    case policy::verdict::failing:
    case policy::verdict::warming:
      return {errc::overloaded,
              fmt::format("every target of '{}' that could serve this has failed lately; retry in a moment",
                          model),
              {}};
    case policy::verdict::not_ready:
    case policy::verdict::overflow_only:
    case policy::verdict::eligible:
    case policy::verdict::chosen:
      break;
  }
  return {errc::overloaded, fmt::format("no target of '{}' is ready", model), {}};
}

task<result<std::string>> read_json_body(api::request_context& context, std::size_t limit_bytes) {
  const auto& fields = context.exchange.head().fields;
  const auto type = fields.find("content-type");
  if (type != fields.end() &&
      !http::is_media_type({type->value().data(), type->value().size()}, "application/json")) {
    co_return fail(errc::unsupported_media,
                   "send the body as JSON, with the header 'Content-Type: application/json'");
  }
  const auto general = static_cast<std::size_t>(context.snap->config.limits.body_bytes);
  const auto limit = limit_bytes == 0 ? general : limit_bytes;
  auto body = co_await context.exchange.read_body(limit);
  context.probe.body_read();
  co_return body;
}

task<void> refuse(api::request_context& context, const error& e, http::header_list headers) {
  context.probe.set_outcome(info(e.code).code);
  context.probe.set_detail(e.message);
  if (e.code == errc::client_gone) {
    context.exchange.abort();
    co_return;
  }
  auto reply = api::error_reply(e);
  append(reply.headers, std::move(headers));
  co_await context.exchange.send(std::move(reply));
}

result<const model_entry*> find_model(api::request_context& context, std::string_view model) {
  const auto* entry = context.snap->find_model(model);
  if (entry == nullptr || !context.caller.may_use(entry->name)) {
    return fail(errc::model_not_found,
                fmt::format("no model named '{}' here; GET /v1/models lists those you may use",
                            engine::text::printable(model, 256)),
                "model");
  }
  context.probe.set_model(entry->name);
  if (context.state.draining) return fail(errc::draining, "shutting down; retry in a moment");
  return entry;
}

task<void> relay_call(api::request_context& context, std::shared_ptr<const api::generation_call> call,
                      std::string_view id_prefix) {
  const auto found = find_model(context, call->model);
  if (!found) {
    co_await refuse(context, found.error());
    co_return;
  }
  const io_executor executor = co_await asio::this_coro::executor;
  auto& keys = context.state.keys;
  limits::ticket ticket(context.caller, keys.money.get(), keys.shared.get(), context.exchange, executor);
  const cost_report report{context.probe, ticket};
  const result<void> taken = co_await ticket.take_request();
  if (!taken) {
    context.state.metrics.limit_refused(taken.error().code);
    co_await refuse(context, taken.error(), ticket.headers());
    co_return;
  }
  co_await relay_admitted(context, std::move(call), id_prefix, **found, ticket);
}

}  // namespace weir::gateway::relay
