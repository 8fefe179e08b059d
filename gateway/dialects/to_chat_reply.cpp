#include "gateway/dialects/to_chat_reply.hpp"

#include "gateway/dialects/source_json.hpp"
#include "gateway/dialects/usage.hpp"

namespace weir::gateway::dialects {

namespace {

using simdjson::dom::object;

struct answer_parts {
  std::string content;
  std::string reasoning;
  std::string calls;  // objects, comma between
  bool has_text = false;
};

// False: a block that lacks what its type promises.
bool read_block(object block, std::string_view text, answer_parts& out, json_writer& calls) {
  const auto type = string_in(block, "type");
  if (type == "text") {
    const auto piece = string_in(block, "text");
    out.content += piece.value_or("");
    out.has_text = true;
    return piece.has_value();
  }
  if (type == "thinking") {
    const auto piece = string_in(block, "thinking");
    out.reasoning += piece.value_or("");
    return piece.has_value();
  }
  if (type != "tool_use") return type.has_value();
  const auto id = string_in(block, "id");
  const auto name = string_in(block, "name");
  const std::string_view input = text_of(text, "input");
  if (!id || !name || !input.starts_with('{')) return false;
  calls.open('{').key("id").text(*id).key("type").text("function").key("function").open('{');
  calls.key("name").text(*name).key("arguments").text(input).close('}').close('}');
  return true;
}

bool read_blocks(const source_json& source, answer_parts& out) {
  simdjson::dom::array blocks;
  if (source.root().at_key("content").get(blocks)) return false;
  const auto texts = texts_of(text_of(source.text(), "content"));
  json_writer calls(out.calls);
  std::size_t index = 0;
  for (const auto entry : blocks) {
    object block;
    if (entry.get(block) || !read_block(block, texts[index++], out, calls)) return false;
  }
  return true;
}

void write_message(json_writer& w, const answer_parts& parts) {
  w.open('{').key("role").text("assistant").key("content");
  if (parts.has_text || parts.calls.empty()) {
    w.text(parts.content);
  } else {
    w.raw("null");
  }
  w.key("refusal").raw("null");
  if (!parts.reasoning.empty()) {
    w.key("reasoning").text(parts.reasoning).key("reasoning_content").text(parts.reasoning);
  }
  if (!parts.calls.empty()) w.key("tool_calls").open('[').raw(parts.calls).close(']');
  w.close('}');
}

}  // namespace

std::string_view to_finish_reason(std::string_view stop_reason) noexcept {
  if (stop_reason == "max_tokens" || stop_reason == "model_context_window_exceeded") return "length";
  if (stop_reason == "tool_use") return "tool_calls";
  if (stop_reason == "refusal") return "content_filter";
  return "stop";
}

result<chat_reply> to_chat_reply(const std::string& message, const api::answer_identity& identity) {
  const auto source = source_json::parse(message);
  answer_parts parts;
  if (!source || string_in(source->root(), "type") != "message" || !read_blocks(*source, parts)) {
    return fail(errc::upstream_failed, "the target's reply is no message");
  }
  usage_parts usage;
  object counts;
  if (!source->root().at_key("usage").get(counts)) read_messages_usage(counts, usage);
  chat_reply out;
  out.usage = usage.counts();
  const auto id = string_in(source->root(), "id").value_or("");
  json_writer w(out.body);
  w.open('{').key("id").text(identity.id.empty() ? id : std::string_view(identity.id));
  w.key("object").text("chat.completion").key("created").number(identity.created_s);
  w.key("model").text(identity.model).key("choices").open('[').open('{').key("index").number(0);
  w.key("message");
  write_message(w, parts);
  w.key("logprobs").raw("null").key("finish_reason");
  w.text(to_finish_reason(string_in(source->root(), "stop_reason").value_or(""))).close('}').close(']');
  w.key("usage");
  write_chat_usage(w, usage);
  w.close('}');
  return out;
}

}  // namespace weir::gateway::dialects
