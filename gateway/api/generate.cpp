#include <array>
#include <memory>
#include <string_view>

#include "gateway/api/endpoints.hpp"
#include "gateway/api/generation_call.hpp"
#include "gateway/api/serve_call.hpp"
#include "gateway/relay/relay.hpp"

namespace weir::gateway::api {

namespace {

// Of the headers in which clients name their conversations (Codex, opencode); the body's own word counts
// first.
constexpr std::array<std::string_view, 3> k_session_headers{"session-id", "x-session-affinity",
                                                            "x-session-id"};

void name_session(const http::request_head& head, generation_call& call) {
  for (const auto field : k_session_headers) {
    const auto found = head.fields.find({field.data(), field.size()});
    if (found != head.fields.end()) name_session(call, {found->value().data(), found->value().size()});
  }
}

task<void> serve_generation(request_context& context, generation_kind kind, std::string_view id_prefix) {
  auto body = co_await relay::read_json_body(context);
  if (!body) {
    co_await relay::refuse(context, body.error());
    co_return;
  }
  auto call = read_generation_call(kind, std::move(*body));
  co_await serve_call(context, std::move(call), id_prefix);
}

}  // namespace

task<void> serve_call(request_context& context, result<generation_call> call, std::string_view id_prefix) {
  if (!call) {
    co_await relay::refuse(context, call.error());
    co_return;
  }
  name_session(context.exchange.head(), *call);
  auto shared = std::make_shared<const generation_call>(std::move(*call));
  co_await relay::relay_call(context, std::move(shared), id_prefix);
}

task<void> serve_chat(request_context& context) {
  co_await serve_generation(context, generation_kind::chat, "chatcmpl-");
}

task<void> serve_embeddings(request_context& context) {
  co_await serve_generation(context, generation_kind::embeddings, "embd-");
}

task<void> serve_responses(request_context& context) {
  co_await serve_generation(context, generation_kind::responses, "resp_");
}

task<void> serve_completions(request_context& context) {
  co_await serve_generation(context, generation_kind::completions, "cmpl-");
}

}  // namespace weir::gateway::api
