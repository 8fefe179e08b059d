#include "gateway/api/chat_types.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace weir::gateway::api {

namespace {

using engine::text::chat_message;

bool is_tool_name(std::string_view name) {
  return !name.empty() && name.size() <= k_tool_name_bytes_max &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                  c == '-';
         });
}

void read_part(field_reader& in, simdjson::dom::object part, std::string& text) {
  std::string_view type;
  if (part.at_key("type").get(type)) return in.fail("content", "parts need a 'type'");
  if (type == "text") {
    std::string_view piece;
    if (part.at_key("text").get(piece))
      return in.fail("content", "parts of type 'text' need a string 'text'");
    text += piece;
  } else if (type == "refusal") {
    std::string_view piece;
    if (part.at_key("refusal").get(piece)) return in.fail("content", "parts of type 'refusal' need a string");
    text += piece;
  } else if (type == "image_url") {
    in.fail("content",
            "parts of type 'image_url' are not supported: the embedded engine runs the text model alone; "
            "send text");
  } else {
    in.fail("content", fmt::format("parts of type '{}' are not supported; send text", excerpt(type)));
  }
}

void read_content(field_reader& in, std::string& text) {
  const auto value = in.find("content");
  if (!value) return;
  std::string_view plain;
  simdjson::dom::array parts;
  if (!value->get(plain)) {
    text = plain;
    return;
  }
  if (value->get(parts)) return in.fail("content", "must be a string or an array of parts");
  if (parts.size() > k_parts_max)
    return in.fail("content", fmt::format("may hold at most {} parts", k_parts_max));
  for (const auto entry : parts) {
    simdjson::dom::object part;
    if (entry.get(part)) return in.fail("content", "parts must be objects");
    read_part(in, part, text);
  }
}

void read_tool_calls(field_reader& in, chat_message& message) {
  const auto calls = in.array("tool_calls");
  if (!calls) return;
  if (calls->size() > k_tools_max)
    return in.fail("tool_calls", fmt::format("may hold at most {} calls", k_tools_max));
  for (const auto entry : *calls) {
    engine::text::tool_call call;
    simdjson::dom::object object;
    simdjson::dom::object function;
    std::string_view id;
    std::string_view name;
    std::string_view arguments;
    if (entry.get(object) || object.at_key("id").get(id) || object.at_key("function").get(function) ||
        function.at_key("name").get(name) || function.at_key("arguments").get(arguments)) {
      return in.fail("tool_calls", "entries need 'id' and 'function' with string 'name' and 'arguments'");
    }
    message.tool_calls.push_back({std::string(id), std::string(name), std::string(arguments)});
  }
}

void read_message(field_reader& in, chat_message& message) {
  in.text("role", message.role);
  static constexpr std::string_view k_roles[] = {"system", "developer", "user", "assistant", "tool"};
  if (in.ok() && std::find(std::begin(k_roles), std::end(k_roles), message.role) == std::end(k_roles)) {
    in.fail("role", "must be one of system, developer, user, assistant, tool");
  }
  read_content(in, message.content);
  for (const std::string_view key : {"reasoning_content", "reasoning"}) {
    std::string_view reasoning;
    if (const auto value = in.find(key); value && !value->get(reasoning)) message.reasoning = reasoning;
  }
  std::string_view name;
  if (const auto value = in.find("name"); value && !value->get(name)) message.name = name;
  const bool has_content = in.find("content").has_value();
  if (message.role == "assistant") {
    read_tool_calls(in, message);
    if (!has_content && message.tool_calls.empty())
      in.fail("content", "is required unless there are tool_calls");
    return;
  }
  if (!has_content) in.fail("content", "is required");
  if (message.role == "tool") {
    in.text("tool_call_id", message.tool_call_id);
    if (in.ok() && message.tool_call_id.empty()) in.fail("tool_call_id", "is required for role 'tool'");
  }
}

void read_messages(field_reader& in, chat_request& out) {
  const auto messages = in.array("messages");
  if (!messages || messages->size() == 0)
    return in.fail("messages", "is required: an array of at least one message");
  if (messages->size() > k_messages_max) {
    return in.fail("messages", fmt::format("may hold at most {} messages", k_messages_max));
  }
  for (const auto entry : *messages) {
    const auto index = out.prompt.messages.size();
    simdjson::dom::object object;
    if (entry.get(object)) return in.fail(fmt::format("messages[{}]", index), "must be an object");
    field_reader inner(object, fmt::format("messages[{}]", index));
    read_message(inner, out.prompt.messages.emplace_back());
    in.adopt(inner);
    if (!in.ok()) return;
  }
}

void read_tools(field_reader& in, chat_request& out) {
  const auto tools = in.array("tools");
  if (!tools || tools->size() == 0) return;
  if (tools->size() > k_tools_max)
    return in.fail("tools", fmt::format("may hold at most {} tools", k_tools_max));
  for (const auto entry : *tools) {
    simdjson::dom::object tool;
    simdjson::dom::object function;
    std::string_view type;
    std::string_view name;
    if (entry.get(tool) || tool.at_key("type").get(type)) return in.fail("tools", "entries need a 'type'");
    if (type != "function") {
      return in.fail("tools",
                     fmt::format("of type '{}' are not supported; declare functions", excerpt(type)));
    }
    if (tool.at_key("function").get(function) || function.at_key("name").get(name) || !is_tool_name(name)) {
      return in.fail("tools", "need 'function' with a 'name' of 1 to 64 letters, digits, '_' or '-'");
    }
  }
  out.prompt.tools_json = simdjson::minify(*tools);
}

void read_tool_choice(field_reader& in, chat_request& out) {
  const auto choice = in.find("tool_choice");
  if (!choice) return;
  std::string_view word;
  simdjson::dom::object named;
  if (!choice->get(word)) {
    if (word == "none") {
      out.prompt.tools_json.clear();
    } else if (word != "auto" && word != "required") {
      in.fail("tool_choice", "must be none, auto, required or an object that names a function");
    }
    if (word == "required" && out.prompt.tools_json.empty())
      in.fail("tool_choice", "'required' needs 'tools'");
    return;
  }
  if (choice->get(named)) in.fail("tool_choice", "must be none, auto, required or an object");
}

void read_output_format(field_reader& in) {
  if (const auto format = in.object("response_format")) {
    std::string_view type;
    if (format->at_key("type").get(type)) return in.fail("response_format", "needs a 'type'");
    if (type != "text" && type != "json_object" && type != "json_schema") {
      in.fail("response_format", "must be of type text, json_object or json_schema");
    }
  }
  if (const auto modalities = in.array("modalities")) {
    for (const auto entry : *modalities) {
      std::string_view word;
      if (entry.get(word) || word != "text") return in.fail("modalities", "may only hold 'text'");
    }
  }
  for (const std::string_view key : {"functions", "function_call"}) {
    if (in.find(key)) in.fail(key, "is not supported; use 'tools' and 'tool_choice'");
  }
}

void read_logprobs(field_reader& in, generation_options& out) {
  bool wanted = false;
  std::optional<std::int64_t> top;
  in.flag("logprobs", wanted);
  in.integer("top_logprobs", top, {0, 20});
  if (top && !wanted) return in.fail("top_logprobs", "needs 'logprobs': true");
  if (wanted) out.top_logprobs = static_cast<int>(top.value_or(0));
}

// As the served entry points of Kimi-K3 take them: OpenAI's reasoning_effort, and vLLM's and SGLang's
// chat_template_kwargs.thinking.
void read_thinking(const field_reader& in, engine::text::chat_prompt& out) {
  std::string_view effort;
  if (const auto wanted = in.find("reasoning_effort"); wanted && !wanted->get(effort)) {
    out.thinking_effort = effort;
  }
  const auto kwargs = in.find("chat_template_kwargs");
  bool thinking = true;
  if (kwargs && !kwargs->at_key("thinking").get(thinking)) out.thinking = thinking;
}

// OpenAI's efforts by the names that Kimi-K3 knows; it does not answer without thinking at all.
std::string known_effort(std::string word) {
  if (word == "none" || word == "minimal") return "low";
  if (word == "medium") return "high";
  if (word == "xhigh") return "max";
  return word;
}

// What the model is told about the answer's form.
void read_promises(const field_reader& in, engine::text::chat_prompt& out) {
  std::string_view word;
  const auto choice = in.find("tool_choice");
  if (choice && !choice->get(word)) {
    if (word == "required") out.tools = engine::text::tool_use::required;
    if (word == "none") out.tools = engine::text::tool_use::forbidden;
  }
  const auto format = in.find("response_format");
  if (!format || format->at_key("type").get(word)) return;
  if (word == "json_object") out.format = engine::text::reply_format::json_object;
  simdjson::dom::element schema;
  if (word == "json_schema" && !format->at_pointer("/json_schema/schema").get(schema)) {
    out.format = engine::text::reply_format::json_schema;
    out.schema_json = simdjson::minify(schema);
  }
}

}  // namespace

result<chat_request> parse_chat_request(const std::string& body) {
  const auto document = json_document::parse(body);
  if (!document) return std::unexpected(document.error());
  chat_request out;
  field_reader in(document->root());
  read_generation_options(in, out.options);
  read_messages(in, out);
  read_tools(in, out);
  read_tool_choice(in, out);
  read_thinking(in, out.prompt);
  out.prompt.thinking_effort = known_effort(std::move(out.prompt.thinking_effort));
  read_promises(in, out.prompt);
  read_output_format(in);
  read_logprobs(in, out.options);
  if (in.ok()) out.answer = read_answer_form(in);
  if (!in.ok()) return std::unexpected(*in.first_error());
  return out;
}

result<engine::text::chat_prompt> parse_chat_prompt(const std::string& body) {
  const auto document = json_document::parse(body);
  if (!document) return std::unexpected(document.error());
  chat_request out;
  field_reader in(document->root());
  read_messages(in, out);
  read_tools(in, out);
  read_tool_choice(in, out);
  read_thinking(in, out.prompt);
  read_promises(in, out.prompt);
  if (!in.ok()) return std::unexpected(*in.first_error());
  return std::move(out.prompt);
}

}  // namespace weir::gateway::api
