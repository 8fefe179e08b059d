#include "gateway/route/prompt_reader.hpp"

#include "gateway/api/chat_types.hpp"
#include "gateway/api/completion_types.hpp"
#include "gateway/api/json.hpp"

namespace weir::gateway::route {

namespace {

// Tools open a prompt in every published format, messages follow.
std::optional<prompt_content> opaque_of(const std::string& body, std::initializer_list<const char*> keys) {
  const auto document = api::json_document::parse(body);
  if (!document) return std::nullopt;
  opaque_text out;
  for (const char* key : keys) {
    simdjson::dom::element value;
    if (!document->root().at_key(key).get(value)) out.text += simdjson::minify(value);
  }
  if (out.text.empty()) return std::nullopt;
  return out;
}

std::optional<prompt_content> read_chat(const api::generation_call& call) {
  auto chat = api::parse_chat_prompt(call.body);
  if (chat) return std::move(*chat);
  return opaque_of(call.body, {"tools", "messages"});
}

std::optional<prompt_content> read_completion(const api::generation_call& call) {
  auto request = api::parse_completion_request(call.body);
  // Several prompts are one request to one target: the first decides.
  if (!request || request->prompts.empty()) return opaque_of(call.body, {"prompt"});
  auto& first = request->prompts.front();
  if (auto* text = std::get_if<std::string>(&first)) return std::move(*text);
  return std::get<std::vector<std::int32_t>>(std::move(first));
}

}  // namespace

std::optional<prompt_content> read_prompt(const api::generation_call& call) {
  switch (call.kind) {
    case api::generation_kind::chat:
      return read_chat(call);
    case api::generation_kind::completions:
      return read_completion(call);
    case api::generation_kind::embeddings:
    case api::generation_kind::count_tokens:
      return std::nullopt;  // nothing of it is reused
    case api::generation_kind::responses:
      return opaque_of(call.body, {"instructions", "tools", "input"});
    case api::generation_kind::messages:
      return opaque_of(call.body, {"tools", "system", "messages"});
  }
  return std::nullopt;
}

}  // namespace weir::gateway::route
