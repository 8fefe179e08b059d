#include "gateway/dialects/to_chat_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "gateway/dialects/chat_messages.hpp"
#include "gateway/dialects/json_writer.hpp"
#include "gateway/dialects/source_json.hpp"

namespace weir::gateway::dialects {

namespace {

using api::excerpt;
using api::field_reader;
using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::int64_t k_max_tokens_max = 1 << 24;

constexpr std::string_view k_translated[] = {
    "model",  "messages", "system",      "max_tokens", "metadata", "output_config", "stop_sequences",
    "stream", "thinking", "temperature", "top_p",      "top_k",    "tools",         "tool_choice"};

// What the answer does not depend on, as README.md lists it.
constexpr std::string_view k_left_out[] = {"anthropic_version", "cache_control", "context_management",
                                           "diagnostics",       "service_tier",  "speed",
                                           "user_profile_id",   "workspace_id"};

template <std::size_t N>
bool holds(const std::string_view (&list)[N], std::string_view key) {
  return std::find(std::begin(list), std::end(list), key) != std::end(list);
}

class request_translator {
 public:
  request_translator(const source_json& source, messages_endpoint endpoint)
      : source_(source), answers_(endpoint == messages_endpoint::messages), in_(source.root()) {}

  result<std::string> run();

 private:
  void refuse_unknown();
  void write_limits();
  void write_sampling();
  void write_stop();
  void write_tools();
  void write_tool(object tool, std::string_view json, const std::string& path);
  void write_tool_choice();
  void write_effort();
  void write_format(object config);
  void write_caller();
  void write_stream();

  const source_json& source_;
  bool answers_;
  field_reader in_;
  std::string out_;
  json_writer w_{out_};
};

void request_translator::refuse_unknown() {
  for (const auto field : source_.root()) {
    if (holds(k_translated, field.key) || holds(k_left_out, field.key) || field.value.is_null()) continue;
    return in_.fail(excerpt(field.key), "cannot be served by this model");
  }
}

void request_translator::write_limits() {
  std::optional<std::int64_t> tokens;
  in_.integer("max_tokens", tokens, {1, k_max_tokens_max});
  if (!tokens && answers_) return in_.fail("max_tokens", "is required");
  if (tokens) w_.key("max_completion_tokens").number(*tokens);
}

void request_translator::write_sampling() {
  for (const std::string_view key : {"temperature", "top_p"}) {
    const auto value = in_.find(key);
    double number = 0;
    if (!value) continue;
    if (value->get(number) || !(number >= 0 && number <= 1)) {
      return in_.fail(key, "must be a number from 0 to 1");
    }
    w_.key(key).raw(fmt::format("{}", number));
  }
  std::optional<std::int64_t> top_k;
  in_.integer("top_k", top_k, {0, k_max_tokens_max});
  if (top_k.value_or(0) > 0) w_.key("top_k").number(*top_k);
}

void request_translator::write_stop() {
  const auto list = in_.array("stop_sequences");
  if (!list || list->begin() == list->end()) return;
  w_.key("stop").open('[');
  for (const auto entry : *list) {
    std::string_view text;
    if (entry.get(text)) return in_.fail("stop_sequences", "must hold strings");
    w_.text(text);
  }
  w_.close(']');
}

void request_translator::write_tool(object tool, std::string_view json, const std::string& path) {
  element type;
  std::string_view word;
  const bool typed = !tool.at_key("type").get(type) && !type.is_null();
  if (typed && (type.get(word) || word != "custom")) {
    return in_.fail(path + ".type", fmt::format("'{}' cannot be served by this model; declare a tool with an "
                                                "'input_schema'",
                                                excerpt(word)));
  }
  const auto name = string_in(tool, "name");
  const std::string_view schema = text_of(json, "input_schema");
  if (!name || name->empty() || !schema.starts_with('{')) {
    return in_.fail(path, "needs a 'name' and an object 'input_schema'");
  }
  w_.open('{').key("type").text("function").key("function").open('{').key("name").text(*name);
  if (const auto description = string_in(tool, "description")) w_.key("description").text(*description);
  w_.key("parameters").raw(schema);
  bool strict = false;
  if (!tool.at_key("strict").get(strict) && strict) w_.key("strict").flag(true);
  w_.close('}').close('}');
}

void request_translator::write_tools() {
  const auto tools = in_.array("tools");
  if (!tools || tools->begin() == tools->end()) return;
  const auto texts = texts_of(text_of(source_.text(), "tools"));
  std::size_t index = 0;
  w_.key("tools").open('[');
  for (const auto entry : *tools) {
    const std::string path = fmt::format("tools[{}]", index);
    object tool;
    if (entry.get(tool)) return in_.fail(path, "must be an object");
    write_tool(tool, texts[index++], path);
    if (!in_.ok()) return;
  }
  w_.close(']');
}

void request_translator::write_tool_choice() {
  const auto choice = in_.object("tool_choice");
  if (!choice) return;
  const auto type = string_in(*choice, "type").value_or("");
  const auto name = string_in(*choice, "name");
  if (type == "auto" || type == "none") {
    w_.key("tool_choice").text(type);
  } else if (type == "any") {
    w_.key("tool_choice").text("required");
  } else if (type == "tool" && name) {
    w_.key("tool_choice").open('{').key("type").text("function").key("function").open('{');
    w_.key("name").text(*name).close('}').close('}');
  } else {
    return in_.fail("tool_choice", "must be of type auto, any, none or tool, which needs a 'name'");
  }
  bool alone = false;
  if (!choice->at_key("disable_parallel_tool_use").get(alone) && alone) {
    w_.key("parallel_tool_calls").flag(false);
  }
}

// A budget in tokens as the word that a chat target knows.
std::string_view effort_of_budget(std::int64_t tokens) {
  constexpr std::int64_t k_medium_tokens = 8192;
  constexpr std::int64_t k_high_tokens = 16'384;
  return tokens >= k_high_tokens ? "high" : tokens >= k_medium_tokens ? "medium" : "low";
}

void request_translator::write_effort() {
  std::string_view effort;
  const auto config = in_.object("output_config");
  const auto thinking = in_.object("thinking");
  if (thinking) {
    const auto type = string_in(*thinking, "type").value_or("");
    field_reader inner(*thinking, "thinking");
    std::optional<std::int64_t> budget;
    inner.integer("budget_tokens", budget, {0, k_max_tokens_max});
    if (type == "enabled" && !budget) inner.fail("budget_tokens", "is required");
    if (type != "enabled" && type != "disabled" && type != "adaptive" && type != "between_tools") {
      inner.fail("type", "must be enabled, disabled, adaptive or between_tools");
    }
    in_.adopt(inner);
    if (type == "enabled") effort = effort_of_budget(budget.value_or(0));
    if (type == "disabled") effort = "none";
  }
  if (config && effort != "none") {
    field_reader inner(*config, "output_config");
    const auto wanted = inner.find("effort");
    std::string_view word;
    if (wanted && (wanted->get(word) || word.empty() || word.size() > 16)) {
      inner.fail("effort", "must be low, medium, high, xhigh or max");
    }
    in_.adopt(inner);
    if (!word.empty()) effort = word;
  }
  if (!effort.empty()) w_.key("reasoning_effort").text(effort);
  if (config) write_format(*config);
}

void request_translator::write_format(object config) {
  element format;
  if (config.at_key("format").get(format) || format.is_null()) return;
  const std::string_view json = text_of(text_of(source_.text(), "output_config"), "format");
  object fields;
  const std::string_view schema = text_of(json, "schema");
  if (format.get(fields) || string_in(fields, "type") != "json_schema" || !schema.starts_with('{')) {
    return in_.fail("output_config.format", "must be of type json_schema with an object 'schema'");
  }
  w_.key("response_format").open('{').key("type").text("json_schema").key("json_schema").open('{');
  w_.key("name").text("answer").key("strict").flag(true).key("schema").raw(schema).close('}').close('}');
}

void request_translator::write_caller() {
  const auto metadata = in_.object("metadata");
  const auto user = metadata ? string_in(*metadata, "user_id") : std::nullopt;
  if (user && !user->empty()) w_.key("user").text(*user);
}

void request_translator::write_stream() {
  bool stream = false;
  in_.flag("stream", stream);
  if (stream && answers_) w_.key("stream").flag(true).key("stream_options").raw(R"({"include_usage":true})");
}

result<std::string> request_translator::run() {
  std::string model;
  in_.text("model", model);
  if (in_.ok() && model.empty()) in_.fail("model", "is required");
  refuse_unknown();
  out_.reserve(source_.text().size() + 512);
  w_.open('{').key("model").text(model);
  write_limits();
  const std::string messages = write_chat_messages(in_, source_, answers_);
  w_.key("messages").open('[').raw(messages).close(']');
  write_tools();
  write_tool_choice();
  write_effort();
  write_sampling();
  write_stop();
  write_caller();
  write_stream();
  w_.close('}');
  if (!in_.ok()) return std::unexpected(*in_.first_error());
  return std::move(out_);
}

}  // namespace

result<std::string> to_chat_request(const std::string& body, messages_endpoint endpoint) {
  const auto source = source_json::parse(body);
  if (!source) return std::unexpected(source.error());
  return request_translator(*source, endpoint).run();
}

}  // namespace weir::gateway::dialects
