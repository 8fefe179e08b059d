#include <memory>

#include "gateway/api/endpoints.hpp"
#include "gateway/relay/relay.hpp"

namespace weir::gateway::api {

namespace {

template <class Request>
task<void> serve_generation(request_context& context, result<Request> parsed,
                            const policy::request_facts& facts, std::string_view id_prefix) {
  if (!parsed) {
    co_await relay::refuse(context, parsed.error());
    co_return;
  }
  const auto request = std::make_shared<const Request>(std::move(*parsed));
  const auto target = relay::choose_target(context, request->options.model, facts);
  if (!target) {
    co_await relay::refuse(context, target.error());
    co_return;
  }
  auto identity = relay::make_identity(id_prefix, request->options.model);
  auto started = co_await (*target)->start(request, std::move(identity));
  if (!started) {
    co_await relay::refuse(context, started.error());
    co_return;
  }
  co_await relay::pump(context, std::move(*started), request->options.stream);
}

}  // namespace

task<void> serve_chat(request_context& context) {
  auto body = co_await relay::read_json_body(context);
  if (!body) {
    co_await relay::refuse(context, body.error());
    co_return;
  }
  auto parsed = parse_chat_request(*body);
  const auto facts = parsed ? parsed->facts : policy::request_facts{};
  co_await serve_generation(context, std::move(parsed), facts, "chatcmpl-");
}

task<void> serve_completions(request_context& context) {
  auto body = co_await relay::read_json_body(context);
  if (!body) {
    co_await relay::refuse(context, body.error());
    co_return;
  }
  auto parsed = parse_completion_request(*body);
  const policy::request_facts facts;
  co_await serve_generation(context, std::move(parsed), facts, "cmpl-");
}

}  // namespace weir::gateway::api
