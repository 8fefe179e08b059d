#include <fmt/format.h>

#include <memory>

#include "gateway/api/endpoints.hpp"
#include "gateway/api/generation_call.hpp"
#include "gateway/api/json.hpp"
#include "gateway/relay/relay.hpp"

namespace weir::gateway::api {

namespace {

struct question {
  generation_call call;
  auth::identity caller;
};

// The identity that a request with this key would have; the one of a client on this machine where
// none is named.
auth::identity identity_of(const std::string& key, const auth::key_ring& keys) {
  return keys.named(key).value_or(auth::loopback_identity());
}

// The request itself, or {"tenant": ..., "key": ..., "request": {...}}.
result<question> read_question(std::string body, const auth::key_ring& keys) {
  question out{.call = {}, .caller = auth::loopback_identity()};
  {
    const auto document = json_document::parse(body);
    if (!document) return std::unexpected(document.error());
    field_reader in(document->root());
    if (const auto wrapped = in.object("request")) {
      std::string key;
      std::string tenant;
      in.text("key", key);
      in.text("tenant", tenant);
      if (!in.ok()) return std::unexpected(*in.first_error());
      out.caller = identity_of(key, keys);
      if (!tenant.empty()) out.caller.tenant = tenant;
      body = simdjson::minify(*wrapped);
    }
  }
  const auto document = json_document::parse(body);
  if (!document) return std::unexpected(document.error());
  const bool chat = field_reader(document->root()).find("messages").has_value();
  auto call =
      read_generation_call(chat ? generation_kind::chat : generation_kind::completions, std::move(body));
  if (!call) return std::unexpected(call.error());
  out.call = std::move(*call);
  return out;
}

std::string to_json(const policy::candidate& c) {
  std::string out = R"({"target":)";
  append_quoted(out, c.name);
  out += fmt::format(R"(,"verdict":"{}","page_tokens":{},"reusable_tokens":{},"evidence":"{}")",
                     policy::to_text(c.why), c.prefix.page_tokens, c.prefix.reusable_tokens,
                     policy::to_text(c.prefix.from));
  out += fmt::format(
      R"(,"ttft_s":{:.6g},"itl_s":{:.6g},"contract_probability":{:.4g},"cost_usd":{:.6g},"score":{:.6g}}})",
      c.ttft_s, c.itl_s, c.contract_probability, c.cost_usd, c.score);
  return out;
}

std::string to_json(const std::string& model, const route::prompt_identity& prompt,
                    const policy::decision& made) {
  std::string out = R"({"model":)";
  append_quoted(out, model);
  const auto& keys = prompt.keys;
  out += fmt::format(R"(,"prompt":{{"keyed":"{}","tokens":{},"keys":{},"unit_tokens":{}}},"target":)",
                     observe::k_keyed_how[static_cast<std::size_t>(keys.how)], keys.tokens, keys.keys.size(),
                     keys.unit_tokens);
  if (made.picked == policy::decision::k_none) {
    out += "null";
  } else {
    append_quoted(out, made.candidates[made.picked].name);
  }
  out += R"(,"candidates":[)";
  for (std::size_t i = 0; i < made.candidates.size(); ++i) {
    out += (i == 0 ? "" : ",") + to_json(made.candidates[i]);
  }
  return out + "]}";
}

}  // namespace

task<void> serve_explain(request_context& context) {
  auto body = co_await relay::read_json_body(context);
  if (!body) {
    co_await relay::refuse(context, body.error());
    co_return;
  }
  auto asked = read_question(std::move(*body), context.state.keys.ring);
  if (!asked) {
    co_await relay::refuse(context, asked.error());
    co_return;
  }
  const auto found = relay::find_model(context, asked->call.model);
  if (!found) {
    co_await relay::refuse(context, found.error());
    co_return;
  }
  auto& router = *(*found)->router;
  const auto prompt = co_await router.identify(asked->call, asked->caller, false);
  const auto made = router.explain(asked->call, asked->caller, *prompt);
  http::reply reply{.body = to_json((*found)->name, *prompt, made)};
  co_await context.exchange.send(std::move(reply));
}

}  // namespace weir::gateway::api
