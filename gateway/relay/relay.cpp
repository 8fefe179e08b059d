#include "gateway/relay/relay.hpp"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <array>
#include <chrono>
#include <stdexcept>

#include "gateway/api/error_body.hpp"
#include "gateway/http/syntax.hpp"
#include "policy/router.hpp"

namespace weir::gateway::relay {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

bool is_json(std::string_view content_type) {
  constexpr std::string_view k_json = "application/json";
  content_type = content_type.substr(0, content_type.find(';'));
  while (content_type.ends_with(' ')) content_type.remove_suffix(1);
  return http::iequals(content_type, k_json);
}

error why_none(const policy::decision& decision, std::string_view model) {
  // The reason that holds for the last target asked: with one target the reason, with several one of theirs.
  const auto why = decision.candidates.empty() ? policy::verdict::not_ready : decision.candidates.back().why;
  switch (why) {
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
    case policy::verdict::not_ready:
    case policy::verdict::eligible:
    case policy::verdict::chosen:
      break;
  }
  return {errc::overloaded, fmt::format("no target of '{}' is ready", model), {}};
}

task<void> pump_body(api::request_context& context, upstream::response& response) {
  const auto& limits = context.snap->config.limits;
  const auto deadline = steady_clock::now() + milliseconds(limits.request_timeout_ms);
  auto body = co_await response.next(deadline);
  if (!body || !*body) {
    const error e = body ? error{errc::upstream_failed, "the target sent no answer", {}} : body.error();
    co_await refuse(context, e);
    co_return;
  }
  const auto usage = response.usage();
  context.probe.set_tokens(usage.prompt_tokens, usage.completion_tokens);
  http::reply reply{.body = std::move(**body)};
  const auto sent = co_await context.exchange.send(std::move(reply));
  if (!sent) context.probe.set_outcome(info(sent.error().code).code);
}

// A started stream that cannot go on: one error event, then an aborted body, so that no client takes it for
// complete.
task<void> break_stream(api::request_context& context, const error& e) {
  context.probe.set_outcome(info(e.code).code);
  if (e.code == errc::client_gone) {
    context.exchange.abort();
    co_return;
  }
  const std::string event = "data: " + api::error_json(e) + "\n\n";
  co_await context.exchange.write(event);
  context.exchange.abort();
}

task<void> pump_stream(api::request_context& context, upstream::response& response) {
  const auto& limits = context.snap->config.limits;
  const milliseconds inter_token(limits.inter_token_timeout_ms);
  auto piece = co_await response.next(steady_clock::now() + milliseconds(limits.first_token_timeout_ms));
  if (!piece) {
    const error e = piece.error();
    co_await refuse(context, e);
    co_return;
  }
  context.probe.first_token();
  // What holds if the client leaves: this coroutine then unwinds at any await below, without another line of
  // it running.
  context.probe.set_outcome(info(errc::client_gone).code);
  const auto count_tokens = [&] {
    const auto usage = response.usage();
    context.probe.set_tokens(usage.prompt_tokens, usage.completion_tokens);
  };
  count_tokens();
  http::header_list headers;
  headers.emplace_back("cache-control", "no-cache");
  headers.emplace_back("x-accel-buffering", "no");
  auto sent =
      co_await context.exchange.start_stream(200, "text/event-stream; charset=utf-8", std::move(headers));
  while (sent && piece && *piece) {
    sent = co_await context.exchange.write(**piece);
    if (sent) piece = co_await response.next(steady_clock::now() + inter_token);
    count_tokens();
  }
  if (!sent || !piece) {
    const error e = sent ? piece.error() : sent.error();
    co_await break_stream(context, e);
    co_return;
  }
  sent = co_await context.exchange.finish();
  context.probe.set_outcome(sent ? std::string_view() : info(sent.error().code).code);
}

}  // namespace

task<result<std::string>> read_json_body(api::request_context& context) {
  const auto& fields = context.exchange.head().fields;
  const auto type = fields.find("content-type");
  if (type != fields.end() && !is_json({type->value().data(), type->value().size()})) {
    co_return fail(errc::unsupported_media,
                   "send the body as JSON, with the header 'Content-Type: application/json'");
  }
  const auto limit = static_cast<std::size_t>(context.snap->config.limits.body_bytes);
  co_return co_await context.exchange.read_body(limit);
}

task<void> refuse(api::request_context& context, const error& e) {
  context.probe.set_outcome(info(e.code).code);
  if (e.code == errc::client_gone) {
    context.exchange.abort();
    co_return;
  }
  auto reply = api::error_reply(e);
  co_await context.exchange.send(std::move(reply));
}

result<std::shared_ptr<upstream::upstream>> choose_target(api::request_context& context,
                                                          std::string_view model,
                                                          const policy::request_facts& facts) {
  const auto* entry = context.snap->find_model(model);
  if (entry == nullptr || !context.caller.may_use(entry->name)) {
    return fail(
        errc::model_not_found,
        fmt::format("no model named '{}' here; GET /v1/models lists those you may use", model.substr(0, 256)),
        "model");
  }
  context.probe.set_model(entry->name);
  if (context.state.draining) return fail(errc::draining, "shutting down; retry in a moment");
  std::vector<policy::target_view> views;
  views.reserve(entry->targets.size());
  for (const auto& target : entry->targets) views.push_back(target->view());
  const auto decision = policy::route(facts, views, entry->turn.fetch_add(1, std::memory_order_relaxed));
  if (decision.picked == policy::decision::k_none) return std::unexpected(why_none(decision, entry->name));
  context.probe.set_target(std::string(views[decision.picked].name));
  return entry->targets[decision.picked];
}

api::answer_identity make_identity(std::string_view prefix, std::string_view model) {
  static constexpr std::string_view k_alphabet =
      "abcdefghijklmnopqrstuvwxyz012345ABCDEFGHIJKLMNOPQRSTUVWXYZ6789-_";
  std::array<unsigned char, 24> random{};
  if (RAND_bytes(random.data(), random.size()) != 1)
    throw std::runtime_error("the system's random source failed");
  api::answer_identity out;
  out.id = prefix;
  for (const unsigned char byte : random) out.id += k_alphabet[byte & 63];
  out.model = model;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  out.created_s = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  return out;
}

task<void> pump(api::request_context& context, std::unique_ptr<upstream::response> response, bool stream) {
  if (stream) {
    co_await pump_stream(context, *response);
  } else {
    co_await pump_body(context, *response);
  }
}

}  // namespace weir::gateway::relay
