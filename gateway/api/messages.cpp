#include <algorithm>

#include "gateway/api/endpoints.hpp"
#include "gateway/api/messages_exchange.hpp"
#include "gateway/api/serve_call.hpp"
#include "gateway/api/token_count.hpp"
#include "gateway/dialects/to_chat_request.hpp"
#include "gateway/dialects/to_messages_reply.hpp"
#include "gateway/http/syntax.hpp"
#include "gateway/relay/relay.hpp"
#include "gateway/route/model_router.hpp"

namespace weir::gateway::api {

namespace {

using dialects::messages_endpoint;

constexpr std::size_t k_version_bytes_max = 1024;  // of anthropic-version and of all anthropic-beta together

result<generation_call> read_as_chat(const std::string& body, messages_endpoint endpoint) {
  auto chat = dialects::to_chat_request(body, endpoint);
  if (!chat) return std::unexpected(std::move(chat.error()));
  return read_generation_call(generation_kind::chat, std::move(*chat));
}

// Whether a target may get requests for the model in the client's own words.
bool is_spoken(const request_context& context, std::string_view model, policy::endpoint asked) {
  const auto* entry = context.snap->find_model(model);
  if (entry == nullptr || !context.caller.may_use(entry->name)) return false;
  const auto& targets = entry->router->targets();
  return std::any_of(targets.begin(), targets.end(), [&](const auto& t) {
    return (t.target->view().endpoints & policy::set_of(asked)) != 0;
  });
}

bool is_version_char(char c) noexcept {
  return http::is_token_char(c) || c == ',' || c == ' ';
}

// What the client asks of the API's version, for a target that speaks it; nothing where it is no plain list.
std::string version_lines_of(const http::request_head& head) {
  std::string version = "2023-06-01";
  std::string beta;
  for (const auto& field : head.fields) {
    const std::string_view name(field.name_string().data(), field.name_string().size());
    const std::string_view value(field.value().data(), field.value().size());
    if (value.empty() || !std::all_of(value.begin(), value.end(), is_version_char)) continue;
    if (http::iequals(name, "anthropic-version")) version = value;
    if (http::iequals(name, "anthropic-beta")) (beta += beta.empty() ? "" : ",") += value;
  }
  if (version.size() + beta.size() > k_version_bytes_max) return {};
  std::string out = "anthropic-version: " + version + "\r\n";
  if (!beta.empty()) out += "anthropic-beta: " + beta + "\r\n";
  return out;
}

// As a chat, which any target of the model answers; what cannot be said as one, for those that speak
// Anthropic's API.
result<generation_call> read_messages_call(const request_context& context, std::string body,
                                           generation_kind kind) {
  const bool counts = kind == generation_kind::count_tokens;
  const auto asked = counts ? policy::endpoint::count_tokens : policy::endpoint::messages;
  auto call = read_as_chat(body, counts ? messages_endpoint::count_tokens : messages_endpoint::messages);
  if (call && (counts || !is_spoken(context, call->model, asked))) return call;
  if (!call) {
    auto own = read_generation_call(kind, std::move(body));
    if (!own || !is_spoken(context, own->model, asked)) return call;
    call = std::move(own);
  } else {
    call->messages = std::move(body);
  }
  call->version_lines = version_lines_of(context.exchange.head());
  return call;
}

task<void> send_count(request_context& context, result<generation_call> call) {
  auto found = co_await count_tokens(context, std::move(call));
  auto reply =
      found ? http::reply{.body = dialects::count_tokens_json(static_cast<std::int64_t>(found->ids.size())),
                          .headers = std::move(found->headers)}
            : messages_error_reply(found.error(), context.exchange.request_id());
  if (!found) context.probe.set_outcome(info(found.error().code).code);
  co_await context.exchange.send(std::move(reply));
}

// Where nobody here can count, a target does.
bool can_count(const request_context& context, const generation_call& call) {
  const auto* entry = context.snap->find_model(call.model);
  return call.kind == generation_kind::chat && entry != nullptr &&
         entry->router->terms().tokenizer != nullptr;
}

}  // namespace

task<void> serve_messages(request_context& context) {
  messages_exchange exchange(context.exchange, context.probe);
  request_context inner{exchange, context.state,           context.snap, context.caller, context.probe,
                        {},       exchange.said_as_asked()};
  auto body = co_await relay::read_json_body(inner);
  auto call = body ? read_messages_call(inner, std::move(*body), generation_kind::messages)
                   : result<generation_call>(std::unexpected(std::move(body.error())));
  if (call) exchange.set_model(call->model);
  co_await serve_call(inner, std::move(call), "chatcmpl-");
}

task<void> serve_count_tokens(request_context& context) {
  auto body = co_await relay::read_json_body(context);
  if (!body) {
    co_await send_count(context, std::unexpected(std::move(body.error())));
    co_return;
  }
  auto call = read_messages_call(context, *body, generation_kind::count_tokens);
  const bool relayed =
      call && !can_count(context, *call) && is_spoken(context, call->model, policy::endpoint::count_tokens);
  if (!relayed) {
    co_await send_count(context, std::move(call));
    co_return;
  }
  if (call->kind == generation_kind::chat) {
    call = read_generation_call(generation_kind::count_tokens, std::move(*body));
    if (call) call->version_lines = version_lines_of(context.exchange.head());
  }
  messages_exchange exchange(context.exchange, context.probe);
  request_context inner{exchange, context.state,           context.snap, context.caller, context.probe,
                        {},       exchange.said_as_asked()};
  co_await serve_call(inner, std::move(call), "");
}

}  // namespace weir::gateway::api
