#include "gateway/dialects/responses_to_chat.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "gateway/api/json.hpp"
#include "gateway/dialects/json_writer.hpp"

namespace weir::gateway::dialects {

namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

// Members that mean the same in both, by their names there and here.
constexpr std::pair<std::string_view, std::string_view> k_same[] = {
    {"model", "model"},
    {"stream", "stream"},
    {"temperature", "temperature"},
    {"top_p", "top_p"},
    {"max_output_tokens", "max_completion_tokens"},
    {"parallel_tool_calls", "parallel_tool_calls"},
    {"seed", "seed"},
    {"stop", "stop"},
    {"logit_bias", "logit_bias"},
    {"weir_checkpoint_at", "weir_checkpoint_at"}};

std::string_view text_in(element from, std::string_view key) {
  std::string_view out;
  if (from.at_key(key).get(out)) return {};
  return out;
}

class translator final {
 public:
  explicit translator(object root) : root_(root), in_(root), w_(out_.body) {}

  result<responses_as_chat> run() {
    w_.open('{');
    for (const auto& [there, here] : k_same) {
      if (const auto value = in_.find(there)) w_.key(here).raw(simdjson::minify(*value));
    }
    write_messages();
    write_tools();
    write_choice();
    write_format();
    write_logprobs();
    w_.close('}');
    write_echo();
    if (!in_.ok()) return std::unexpected(*in_.first_error());
    return std::move(out_);
  }

 private:
  void copy_member(std::string_view key, element value) {
    w_.text(key);
    out_.body += ':';
    out_.body += simdjson::minify(value);
  }

  void begin_message(std::string_view role) {
    close_calls();
    w_.open('{').key("role").text(role).key("content");
  }

  // An assistant's calls are one message, with the text before them if there was any.
  void close_calls() {
    if (!calls_open_) return;
    w_.close(']').close('}');
    calls_open_ = false;
  }

  void write_messages() {
    w_.key("messages").open('[');
    std::string_view plain;
    if (const auto told = in_.find("instructions")) {
      if (told->get(plain)) return in_.fail("instructions", "must be a string");
      begin_message("system");
      w_.text(plain).close('}');
    }
    const auto input = in_.find("input");
    array items;
    if (!input) return in_.fail("input", "is required: a string or an array of items");
    if (!input->get(plain)) {
      begin_message("user");
      w_.text(plain).close('}').close(']');
      return;
    }
    if (input->get(items)) return in_.fail("input", "must be a string or an array of items");
    for (const auto item : items) {
      if (!in_.ok()) return;
      write_item(item, fmt::format("input[{}]", count_++));
    }
    close_calls();
    w_.close(']');
  }

  void write_item(element item, const std::string& path) {
    const std::string_view type = text_in(item, "type");
    if (type == "reasoning") return;
    if (type == "function_call") return write_call(item, path);
    if (type == "function_call_output") return write_output(item, path);
    const std::string_view role = text_in(item, "role");
    if ((!type.empty() && type != "message") || role.empty()) {
      return in_.fail(path, fmt::format("of type '{}' is not supported", api::excerpt(type)));
    }
    begin_message(role);
    element content;
    if (item.at_key("content").get(content)) return in_.fail(path, "needs 'content'");
    w_.text(content_text(content, path)).close('}');
  }

  std::string content_text(element content, const std::string& path) {
    std::string_view plain;
    array parts;
    if (!content.get(plain)) return std::string(plain);
    if (content.get(parts)) {
      in_.fail(path, "must hold a string or an array of parts");
      return {};
    }
    std::string out;
    for (const auto part : parts) {
      const std::string_view type = text_in(part, "type");
      if (type != "input_text" && type != "output_text" && type != "refusal" && type != "text") {
        in_.fail(path, fmt::format("holds a part of type '{}'; send text", api::excerpt(type)));
        return {};
      }
      out += text_in(part, type == "refusal" ? "refusal" : "text");
    }
    return out;
  }

  void write_call(element item, const std::string& path) {
    const std::string_view id = text_in(item, "call_id"), name = text_in(item, "name");
    if (id.empty() || name.empty()) return in_.fail(path, "needs 'call_id' and 'name'");
    if (!calls_open_) {
      w_.open('{').key("role").text("assistant").key("content").text("").key("tool_calls").open('[');
      calls_open_ = true;
    }
    w_.open('{').key("id").text(id).key("type").text("function").key("function").open('{');
    w_.key("name").text(name).key("arguments").text(text_in(item, "arguments")).close('}').close('}');
  }

  void write_output(element item, const std::string& path) {
    const std::string_view id = text_in(item, "call_id");
    element output;
    if (id.empty() || item.at_key("output").get(output))
      return in_.fail(path, "needs 'call_id' and 'output'");
    begin_message("tool");
    w_.text(content_text(output, path)).key("tool_call_id").text(id).close('}');
  }

  // Functions stand flat there.
  void write_tools() {
    const auto tools = in_.array("tools");
    if (!tools || tools->size() == 0) return;
    w_.key("tools").open('[');
    for (const auto entry : *tools) {
      object tool;
      if (entry.get(tool) || text_in(entry, "type") != "function") {
        return in_.fail("tools", "may be functions alone here");
      }
      w_.open('{').key("type").text("function").key("function").open('{');
      for (const auto& field : tool) {
        if (field.key != "type") copy_member(field.key, field.value);
      }
      w_.close('}').close('}');
    }
    w_.close(']');
  }

  void write_choice() {
    const auto choice = in_.find("tool_choice");
    if (!choice) return;
    w_.key("tool_choice");
    if (!choice->is_object()) {
      w_.raw(simdjson::minify(*choice));
    } else if (text_in(*choice, "type") == "allowed_tools") {
      w_.open('{').key("type").text("allowed_tools").key("allowed_tools").open('{');
      w_.key("mode").text(text_in(*choice, "mode")).key("tools").open('[');
      array tools;
      if (choice->at_key("tools").get(tools)) return in_.fail("tool_choice", "needs 'tools'");
      for (const auto tool : tools) write_named(tool);
      w_.close(']').close('}').close('}');
    } else {
      write_named(*choice);
    }
  }

  void write_named(element tool) {
    w_.open('{').key("type").text(text_in(tool, "type")).key("function").open('{');
    w_.key("name").text(text_in(tool, "name")).close('}').close('}');
  }

  void write_format() {
    const auto text = in_.object("text");
    element format;
    if (!text || text->at_key("format").get(format) || format.is_null()) return;
    const std::string_view type = text_in(format, "type");
    w_.key("response_format");
    object fields;
    if (type != "json_schema" || format.get(fields)) {
      w_.raw(simdjson::minify(format));
      return;
    }
    w_.open('{').key("type").text(type).key("json_schema").open('{');
    for (const auto& field : fields) {
      if (field.key != "type") copy_member(field.key, field.value);
    }
    w_.close('}').close('}');
  }

  // Asked for by `include`, and by top_logprobs.
  void write_logprobs() {
    bool wanted = in_.find("top_logprobs").has_value();
    if (const auto include = in_.array("include")) {
      for (const auto entry : *include) {
        std::string_view word;
        wanted = wanted || (!entry.get(word) && word == "message.output_text.logprobs");
      }
    }
    if (!wanted) return;
    w_.key("logprobs").flag(true);
    if (const auto top = in_.find("top_logprobs")) w_.key("top_logprobs").raw(simdjson::minify(*top));
  }

  void write_echo() {
    json_writer echo(out_.echo);
    static constexpr std::pair<std::string_view, std::string_view> k_repeated[] = {
        {"instructions", "null"},
        {"max_output_tokens", "null"},
        {"metadata", "{}"},
        {"parallel_tool_calls", "true"},
        {"reasoning", R"({"effort":null,"summary":null})"},
        {"temperature", "1.0"},
        {"text", R"({"format":{"type":"text"}})"},
        {"tool_choice", "\"auto\""},
        {"tools", "[]"},
        {"top_p", "1.0"},
        {"truncation", "\"disabled\""},
        {"user", "null"}};
    for (const auto& [key, otherwise] : k_repeated) {
      const auto value = in_.find(key);
      echo.key(key).raw(value ? simdjson::minify(*value) : std::string(otherwise));
    }
    echo.key("background").flag(false).key("store").flag(false).key("previous_response_id").raw("null");
  }

  object root_;
  api::field_reader in_;
  responses_as_chat out_;
  json_writer w_;
  bool calls_open_ = false;
  std::size_t count_ = 0;
};

}  // namespace

result<responses_as_chat> responses_to_chat(const std::string& body) {
  const auto document = api::json_document::parse(body);
  if (!document) return std::unexpected(document.error());
  return translator(document->root()).run();
}

error as_responses_error(error why) {
  const auto renamed = [&](std::string_view from, std::string_view to) {
    if (!why.param.starts_with(from)) return;
    const std::string old = why.param;
    why.param = std::string(to) + old.substr(from.size());
    for (auto at = why.message.find(old); at != std::string::npos;
         at = why.message.find(old, at + why.param.size())) {
      why.message.replace(at, old.size(), why.param);
    }
  };
  // Messages and items are not numbered alike.
  if (why.param.starts_with("messages")) why.param = "input";
  renamed("response_format.json_schema", "text.format");
  renamed("response_format", "text.format");
  renamed("max_completion_tokens", "max_output_tokens");
  return why;
}

}  // namespace weir::gateway::dialects
