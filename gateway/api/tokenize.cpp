#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "gateway/api/endpoints.hpp"
#include "gateway/api/error_body.hpp"
#include "gateway/api/json.hpp"
#include "gateway/api/logprobs_json.hpp"
#include "gateway/api/token_count.hpp"
#include "gateway/relay/relay.hpp"
#include "gateway/route/model_router.hpp"

namespace weir::gateway::api {

namespace {

constexpr std::size_t k_body_bytes_max = std::size_t{8} << 20;  // its answer is larger

struct question {
  generation_call call;
  bool token_strs = false;
};

// As vLLM reads it.
result<question> read_question(std::string body) {
  bool chat = false;
  bool token_strs = false;
  {
    const auto document = json_document::parse(body);
    if (!document) return std::unexpected(document.error());
    field_reader in(document->root());
    chat = in.find("messages").has_value();
    if (chat == in.find("prompt").has_value()) in.fail("messages", "or else 'prompt' is required");
    in.flag("return_token_strs", token_strs);
    bool opens_answer = true;
    bool goes_on = false;
    in.flag("add_generation_prompt", opens_answer);
    in.flag("continue_final_message", goes_on);
    if (!in.ok()) return std::unexpected(*in.first_error());
    if (!opens_answer || goes_on) {
      return fail(errc::unsupported, "only prompts that open an answer can be tokenized here",
                  goes_on ? "continue_final_message" : "add_generation_prompt");
    }
  }
  auto call =
      read_generation_call(chat ? generation_kind::chat : generation_kind::completions, std::move(body));
  if (!call) return std::unexpected(std::move(call.error()));
  return question{std::move(*call), token_strs};
}

std::string write_reply(const token_ids& found, bool token_strs) {
  std::string out = fmt::format(R"({{"count":{},"max_model_len":)", found.ids.size());
  const auto context = found.entry->context_tokens;
  out += context > 0 ? std::to_string(context) : "null";
  out += R"(,"tokens":[)";
  for (std::size_t i = 0; i < found.ids.size(); ++i) {
    fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : ",", found.ids[i]);
  }
  out += R"(],"token_strs":)";
  if (!token_strs) return out + "null}";
  const auto& tokenizer = *found.entry->router->terms().tokenizer;
  char separator = '[';
  for (const auto id : found.ids) {
    out += std::exchange(separator, ',');
    append_quoted(out, valid_utf8(tokenizer.token_bytes(id)));
  }
  if (found.ids.empty()) out += '[';
  return out + "]}";
}

}  // namespace

task<void> serve_tokenize(request_context& context) {
  const auto general = static_cast<std::size_t>(context.snap->config.limits.body_bytes);
  auto body = co_await relay::read_json_body(context, std::min(general, k_body_bytes_max));
  if (!body) {
    co_await relay::refuse(context, body.error());
    co_return;
  }
  auto asked = read_question(std::move(*body));
  if (!asked) {
    co_await relay::refuse(context, asked.error());
    co_return;
  }
  auto found = co_await count_tokens(context, std::move(asked->call));
  if (!found) {
    co_await relay::refuse(context, found.error());
    co_return;
  }
  http::reply reply{.body = write_reply(*found, asked->token_strs), .headers = std::move(found->headers)};
  co_await context.exchange.send(std::move(reply));
}

}  // namespace weir::gateway::api
