#include "gateway/dialects/to_messages_reply.hpp"

#include <optional>

#include "gateway/dialects/source_json.hpp"
#include "gateway/dialects/usage.hpp"

namespace weir::gateway::dialects {

namespace {

using simdjson::dom::array;
using simdjson::dom::object;

std::optional<object> first_choice(object root) {
  array choices;
  if (root.at_key("choices").get(choices)) return std::nullopt;
  for (const auto entry : choices) {
    object choice;
    if (!entry.get(choice) && count_in(choice, "index", 0) == 0) return choice;
  }
  return std::nullopt;
}

std::string_view reasoning_of(object message) {
  for (const std::string_view key : {"reasoning", "reasoning_content"}) {
    const auto text = string_in(message, key);
    if (text && !text->empty()) return *text;
  }
  return {};
}

enum class call_form { whole, cut, broken };

// `cut_short`: the answer met its limit, maybe within this call, of which nothing that is not whole can be
// told.
call_form write_tool_use(json_writer& w, object call, bool cut_short) {
  const call_form unusable = cut_short ? call_form::cut : call_form::broken;
  object function;
  const auto id = string_in(call, "id");
  if (!id || call.at_key("function").get(function)) return unusable;
  const auto name = string_in(function, "name");
  const std::string arguments(string_in(function, "arguments").value_or(""));
  const bool readable = arguments.empty() ? !cut_short : is_object(arguments);
  if (!name || !readable) return unusable;
  w.open('{').key("type").text("tool_use").key("id").text(*id).key("name").text(*name);
  w.key("input").raw(arguments.empty() ? "{}" : arguments).close('}');
  return call_form::whole;
}

struct blocks_told {
  bool valid = true;
  bool has_tools = false;
  bool refused = false;
};

blocks_told write_blocks(json_writer& w, object message, bool cut_short) {
  blocks_told out;
  w.open('[');
  if (const auto reasoning = reasoning_of(message); !reasoning.empty()) {
    w.open('{')
        .key("type")
        .text("thinking")
        .key("thinking")
        .text(reasoning)
        .key("signature")
        .text("")
        .close('}');
  }
  for (const std::string_view key : {"content", "refusal"}) {
    const auto text = string_in(message, key);
    if (!text || text->empty()) continue;
    w.open('{').key("type").text("text").key("text").text(*text).close('}');
    out.refused = key == "refusal";
  }
  array calls;
  if (!message.at_key("tool_calls").get(calls)) {
    for (const auto entry : calls) {
      object call;
      out.has_tools = true;
      if (entry.get(call) || write_tool_use(w, call, cut_short) == call_form::broken) out.valid = false;
    }
  }
  w.close(']');
  return out;
}

}  // namespace

std::string_view to_stop_reason(std::string_view finish_reason, bool has_tools, bool refused) noexcept {
  if (finish_reason == "length") return "max_tokens";
  if (finish_reason == "content_filter" || refused) return "refusal";
  if (finish_reason == "tool_calls" || finish_reason == "function_call" || has_tools) return "tool_use";
  return "end_turn";
}

result<messages_reply> to_messages_reply(const std::string& completion, const messages_identity& identity) {
  const auto source = source_json::parse(completion);
  const auto choice = source ? first_choice(source->root()) : std::nullopt;
  object message;
  if (!choice || choice->at_key("message").get(message)) {
    return fail(errc::upstream_failed, "the target's reply is no chat completion");
  }
  messages_reply out;
  json_writer w(out.body);
  w.open('{').key("id").text(identity.id).key("type").text("message").key("role").text("assistant");
  w.key("model").text(identity.model).key("content");
  const auto finish_reason = string_in(*choice, "finish_reason").value_or("");
  const auto told = write_blocks(w, message, finish_reason == "length");
  if (!told.valid) {
    return fail(errc::upstream_failed,
                "the target's reply calls a tool without id, name or an object of arguments");
  }
  const auto stopped_by = string_in(*choice, "stop_reason");  // vLLM: the stop string that was met
  const auto reason = to_stop_reason(finish_reason, told.has_tools, told.refused);
  const bool stopped = reason == "end_turn" && stopped_by;
  w.key("stop_reason").text(stopped ? "stop_sequence" : reason).key("stop_sequence");
  if (stopped) {
    w.text(*stopped_by);
  } else {
    w.raw("null");
  }
  object counts;
  usage_parts usage;
  if (!source->root().at_key("usage").get(counts)) usage = read_chat_usage(counts);
  out.usage = usage.counts();
  w.key("usage");
  write_messages_usage(w, usage);
  w.close('}');
  return out;
}

std::string count_tokens_json(std::int64_t input_tokens) {
  return R"({"input_tokens":)" + std::to_string(input_tokens) + '}';
}

}  // namespace weir::gateway::dialects
