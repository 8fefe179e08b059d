#include "gateway/api/endpoints.hpp"
#include "gateway/api/messages_exchange.hpp"
#include "gateway/api/serve_call.hpp"
#include "gateway/api/token_count.hpp"
#include "gateway/dialects/to_chat_request.hpp"
#include "gateway/dialects/to_messages_reply.hpp"
#include "gateway/relay/relay.hpp"

namespace weir::gateway::api {

namespace {

using dialects::messages_endpoint;

result<generation_call> read_messages_call(result<std::string> body, messages_endpoint endpoint) {
  if (!body) return std::unexpected(std::move(body.error()));
  auto chat = dialects::to_chat_request(*body, endpoint);
  if (!chat) return std::unexpected(std::move(chat.error()));
  return read_generation_call(generation_kind::chat, std::move(*chat));
}

std::string write_count(const token_ids& found) {
  return dialects::count_tokens_json(static_cast<std::int64_t>(found.ids.size()));
}

}  // namespace

task<void> serve_messages(request_context& context) {
  messages_exchange exchange(context.exchange, context.probe);
  request_context inner{exchange, context.state, context.snap, context.caller, context.probe, {}};
  auto body = co_await relay::read_json_body(inner);
  auto call = read_messages_call(std::move(body), messages_endpoint::messages);
  if (call) exchange.set_model(call->model);
  co_await serve_call(inner, std::move(call), "chatcmpl-");
}

task<void> serve_count_tokens(request_context& context) {
  auto body = co_await relay::read_json_body(context);
  auto call = read_messages_call(std::move(body), messages_endpoint::count_tokens);
  auto found = co_await count_tokens(context, std::move(call));
  auto reply = found ? http::reply{.body = write_count(*found), .headers = std::move(found->headers)}
                     : messages_error_reply(found.error(), context.exchange.request_id());
  if (!found) context.probe.set_outcome(info(found.error().code).code);
  co_await context.exchange.send(std::move(reply));
}

}  // namespace weir::gateway::api
