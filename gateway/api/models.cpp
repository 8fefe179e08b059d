#include <fmt/format.h>

#include "gateway/api/endpoints.hpp"
#include "gateway/api/error_body.hpp"
#include "gateway/api/json.hpp"

namespace weir::gateway::api {

namespace {

void append_model(std::string& out, const model_entry& model) {
  out += R"({"id":)";
  append_quoted(out, model.name);
  out += fmt::format(R"(,"object":"model","created":{},"owned_by":"weir")", model.created_s);
  if (model.context_tokens > 0) out += fmt::format(R"(,"max_model_len":{})", model.context_tokens);
  out += '}';
}

}  // namespace

task<void> serve_models(request_context& context) {
  std::string body = R"({"object":"list","data":[)";
  bool first = true;
  for (const auto& model : context.snap->models) {
    if (!context.caller.may_use(model->name)) continue;
    if (!first) body += ',';
    first = false;
    append_model(body, *model);
  }
  body += "]}";
  http::reply reply{.body = std::move(body)};
  co_await context.exchange.send(std::move(reply));
}

task<void> serve_model(request_context& context) {
  const auto* model = context.snap->find_model(context.path_part);
  if (model == nullptr || !context.caller.may_use(model->name)) {
    const error e{errc::model_not_found, "no such model; GET /v1/models lists those you may use", "model"};
    context.probe.set_outcome(info(e.code).code);
    auto reply = error_reply(e);
    co_await context.exchange.send(std::move(reply));
    co_return;
  }
  std::string body;
  append_model(body, *model);
  http::reply reply{.body = std::move(body)};
  co_await context.exchange.send(std::move(reply));
}

}  // namespace weir::gateway::api
