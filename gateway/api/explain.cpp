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
result<auth::identity> identity_of(const std::string& key, const auth::key_ring& keys) {
  if (key.empty()) return auth::loopback_identity();
  if (auto known = keys.named(key)) return std::move(*known);
  return fail(errc::bad_request, "no key of that name opens here; weir keys list names them", "key");
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
      auto caller = identity_of(key, keys);
      if (!caller) return std::unexpected(caller.error());
      out.caller = std::move(*caller);
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

// What is taken of each account that is known, and of how much.
std::string to_json(const policy::account_view& of) {
  std::string out;
  const auto add = [&](std::string_view name, std::int64_t used, std::int64_t total, std::int64_t kept) {
    if (total <= 0) return;
    out += fmt::format(R"({}"{}":{{"used":{},"total":{},"kept":{}}})", out.empty() ? "" : ",", name, used,
                       total, kept);
  };
  add("weights", of.weights_bytes, of.memory_bytes, 0);
  add("runtime", of.runtime_bytes, of.memory_bytes, 0);
  add("state_slots", of.slots_used, of.slots, of.slots_reserved);
  add("context_tokens", of.context_tokens_used, of.context_tokens, of.context_tokens_reserved);
  if (of.transfer_bytes_per_s > 0) {
    out += fmt::format(R"({}"transfer_s":{:.6g})", out.empty() ? "" : ",", policy::transfer_s(of));
  }
  return out;
}

std::string to_json(const policy::candidate& c, const policy::account_view& accounts) {
  std::string out = R"({"target":)";
  append_quoted(out, c.name);
  out += fmt::format(R"(,"verdict":"{}","page_tokens":{},"reusable_tokens":{},"evidence":"{}")",
                     policy::to_text(c.why), c.prefix.page_tokens, c.prefix.reusable_tokens,
                     policy::to_text(c.prefix.from));
  out += fmt::format(
      R"(,"ttft_s":{:.6g},"itl_s":{:.6g},"contract_probability":{:.4g},"cost_usd":{:.6g},"score":{:.6g})",
      c.ttft_s, c.itl_s, c.contract_probability, c.cost_usd, c.score);
  if (const auto books = to_json(accounts); !books.empty()) out += R"(,"accounts":{)" + books + '}';
  return out + '}';
}

std::string to_json(const std::string& model, const route::prompt_identity& prompt,
                    const policy::decision& made, const std::vector<policy::target_view>& views) {
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
    out += (i == 0 ? "" : ",") + to_json(made.candidates[i], views[i].accounts);
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
  http::reply reply{.body = to_json((*found)->name, *prompt, made, router.views())};
  co_await context.exchange.send(std::move(reply));
}

}  // namespace weir::gateway::api
