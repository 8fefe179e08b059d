#include "gateway/dialects/to_messages_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "gateway/dialects/json_writer.hpp"
#include "gateway/dialects/messages_turns.hpp"
#include "gateway/dialects/source_json.hpp"

namespace weir::gateway::dialects {

namespace {

using api::field_reader;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::int64_t k_max_tokens_max = 1 << 24;
constexpr std::int64_t k_thinking_budget_min = 1024;  // as that API demands

// Each changes what an answer is made of, and has no counterpart.
constexpr std::string_view k_refused[] = {"logit_bias",     "functions",          "function_call",
                                          "audio",          "web_search_options", "structured_outputs",
                                          "guided_json",    "guided_regex",       "guided_choice",
                                          "guided_grammar", "top_logprobs",       "prompt_logprobs"};

struct effort {
  std::string_view chat;
  std::string_view messages;
  std::int64_t budget_tokens;
};
constexpr effort k_efforts[] = {{"minimal", "low", 1024},   {"low", "low", 4096},
                                {"medium", "medium", 8192}, {"high", "high", 16'384},
                                {"xhigh", "xhigh", 32'768}, {"max", "max", 65'536}};

// REQUIRES: `in` is ok at the start; later faults change nothing but its error.
class request_translator {
 public:
  request_translator(const source_json& source, const messages_target& target)
      : source_(source), target_(target), in_(source.root()) {}

  result<std::string> run();

 private:
  void refuse(std::string_view key, std::string why) {
    if (!refusal_) {
      refusal_ = error{errc::unsupported, fmt::format("'{}' {}", key, why), std::string(key)};
    }
  }
  void refuse_what_has_no_counterpart();
  void write_limits();
  void write_sampling();
  void write_stop();
  void write_tools();
  void write_tool(object tool, std::string_view text);
  void write_tool_choice();
  void write_thinking(bool in_tool_turn);
  void write_output_config(std::string_view effort_word);
  void write_caller();

  const source_json& source_;
  const messages_target& target_;
  field_reader in_;
  std::string out_;
  json_writer w_{out_};
  std::optional<error> refusal_;
  std::int64_t max_tokens_ = 0;
  bool has_tools_ = false;
  bool forces_tool_ = false;
  bool thinks_ = false;
};

void request_translator::refuse_what_has_no_counterpart() {
  for (const auto key : k_refused) {
    const auto value = in_.find(key);
    object map;
    std::int64_t number = 0;
    const bool empty =
        value && ((!value->get(map) && map.begin() == map.end()) || (!value->get(number) && number == 0));
    if (value && !empty) refuse(key, "cannot be sent to this target");
  }
  std::optional<std::int64_t> answers;
  in_.integer("n", answers, {1, 128});
  if (answers.value_or(1) != 1) refuse("n", "must be 1 for this target");
  bool logprobs = false;
  in_.flag("logprobs", logprobs);
  if (logprobs) refuse("logprobs", "cannot be sent to this target");
  const auto modalities = in_.array("modalities");
  if (!modalities) return;
  for (const auto entry : *modalities) {
    std::string_view word;
    if (entry.get(word) || word != "text") refuse("modalities", "may only hold 'text' for this target");
  }
}

void request_translator::write_limits() {
  std::optional<std::int64_t> tokens;
  for (const std::string_view key : {"max_tokens", "max_completion_tokens"}) {
    in_.integer(key, tokens, {1, k_max_tokens_max});
  }
  max_tokens_ = tokens.value_or(target_.max_tokens_default);
  w_.key("max_tokens").number(max_tokens_);
}

// A temperature beyond 1 is their 1, and a top_p of 1 says nothing.
void request_translator::write_sampling() {
  const bool sends = target_.sampling && !thinks_;
  const struct {
    std::string_view key;
    double max;
    double max_there;
  } numbers[] = {{"temperature", 2, 1}, {"top_p", 1, 1}};
  for (const auto& each : numbers) {
    const auto value = in_.find(each.key);
    double number = 0;
    if (!value) continue;
    if (value->get(number) || !(number >= 0 && number <= each.max)) {
      in_.fail(each.key, fmt::format("must be a number from 0 to {}", each.max));
    } else if (sends && !(each.key == "top_p" && number == 1)) {
      w_.key(each.key).raw(fmt::format("{}", std::min(number, each.max_there)));
    }
  }
  std::optional<std::int64_t> top_k;
  in_.integer("top_k", top_k, {-1, k_max_tokens_max});
  if (sends && top_k.value_or(0) > 0) w_.key("top_k").number(*top_k);
}

void request_translator::write_stop() {
  const auto stop = in_.find("stop");
  if (!stop) return;
  std::vector<std::string_view> texts;
  std::string_view text;
  simdjson::dom::array list;
  if (!stop->get(text)) {
    texts.push_back(text);
  } else if (!stop->get(list)) {
    for (const auto entry : list) {
      if (entry.get(text)) return in_.fail("stop", "must hold strings");
      texts.push_back(text);
    }
  } else {
    return in_.fail("stop", "must be a string or an array of strings");
  }
  std::erase(texts, std::string_view());
  if (texts.empty()) return;
  w_.key("stop_sequences").open('[');
  for (const auto each : texts) w_.text(each);
  w_.close(']');
}

void request_translator::write_tool(object tool, std::string_view text) {
  object function;
  if (string_in(tool, "type") != "function" || tool.at_key("function").get(function)) {
    return refuse("tools", "may only declare functions for this target");
  }
  const auto name = string_in(function, "name");
  if (!name || name->empty()) return in_.fail("tools", "need 'function' with a 'name'");
  w_.open('{').key("name").text(*name);
  if (const auto description = string_in(function, "description")) w_.key("description").text(*description);
  element parameters;
  const bool given = !function.at_key("parameters").get(parameters) && !parameters.is_null();
  if (given && !parameters.is_object()) return in_.fail("tools", "need 'parameters' that are an object");
  w_.key("input_schema");
  element type;
  if (!given) {
    w_.raw(R"({"type":"object","properties":{}})");
  } else {
    std::string schema(text_of(text_of(text, "function"), "parameters"));
    if (parameters.at_key("type").get(type)) {
      api::text_edits edits;
      edits.insert_first(schema, 0, R"("type":"object")");
      schema = edits.apply(schema);
    }
    w_.raw(schema);
  }
  bool strict = false;
  if (!function.at_key("strict").get(strict) && strict) w_.key("strict").flag(true);
  element cache;
  if (!tool.at_key("cache_control").get(cache) && cache.is_object()) {
    w_.key("cache_control").raw(simdjson::minify(cache));
  }
  w_.close('}');
}

void request_translator::write_tools() {
  const auto tools = in_.array("tools");
  if (!tools || tools->begin() == tools->end()) return;
  has_tools_ = true;
  const auto texts = texts_of(text_of(source_.text(), "tools"));
  std::size_t index = 0;
  w_.key("tools").open('[');
  for (const auto entry : *tools) {
    object tool;
    if (entry.get(tool)) return in_.fail("tools", "must hold objects");
    write_tool(tool, texts[index++]);
    if (!in_.ok() || refusal_) return;
  }
  w_.close(']');
}

void request_translator::write_tool_choice() {
  bool parallel = true;
  in_.flag("parallel_tool_calls", parallel);
  const auto choice = in_.find("tool_choice");
  std::string_view word = "auto";
  std::string_view type;
  std::optional<std::string_view> name;
  object named;
  object function;
  if (choice && choice->get(word)) {
    if (choice->get(named)) return in_.fail("tool_choice", "must be a word or an object");
    if (string_in(named, "type") != "function") return refuse("tool_choice", "may only name a function here");
    if (!named.at_key("function").get(function)) name = string_in(function, "name");
    if (!name) return in_.fail("tool_choice", "needs 'function' with a 'name'");
    type = "tool";
  } else if (word == "required") {
    type = "any";
  } else if (word == "auto" || word == "none") {
    type = word;
  } else {
    return in_.fail("tool_choice", "must be none, auto, required or an object that names a function");
  }
  forces_tool_ = type == "tool" || type == "any";
  if (forces_tool_ && !has_tools_) return in_.fail("tool_choice", "needs 'tools'");
  if (!has_tools_ || (!choice && parallel)) return;
  w_.key("tool_choice").open('{').key("type").text(type);
  if (name) w_.key("name").text(*name);
  if (!parallel && type != "none") w_.key("disable_parallel_tool_use").flag(true);
  w_.close('}');
}

// Thinking goes neither with a forced tool nor, told by a budget, with a tool turn whose own thinking the
// client cannot send back.
void request_translator::write_thinking(bool in_tool_turn) {
  std::string word;
  in_.text("reasoning_effort", word);
  const auto* const found = std::find_if(std::begin(k_efforts), std::end(k_efforts),
                                         [&](const effort& e) { return e.chat == word; });
  const bool known = found != std::end(k_efforts);
  if (!word.empty() && word != "none" && !known) {
    in_.fail("reasoning_effort", "must be one of none, minimal, low, medium, high, xhigh, max");
  }
  const std::string_view disabled = R"({"type":"disabled"})";
  if (word == "none") w_.key("thinking").raw(disabled);
  if (target_.thinking == thinking_form::adaptive) {
    thinks_ = known && !forces_tool_;
    if (thinks_) w_.key("thinking").raw(R"({"type":"adaptive"})");
    return write_output_config(known ? found->messages : std::string_view());
  }
  const std::int64_t budget = known ? std::min(found->budget_tokens, max_tokens_ / 4 * 3) : 0;
  thinks_ = budget >= k_thinking_budget_min && !forces_tool_ && !in_tool_turn;
  if (thinks_) {
    w_.key("thinking").open('{').key("type").text("enabled").key("budget_tokens").number(budget).close('}');
  }
  write_output_config({});
}

void request_translator::write_output_config(std::string_view effort_word) {
  const auto format = in_.object("response_format");
  const auto type = format ? string_in(*format, "type") : std::nullopt;
  if (format && !type) return in_.fail("response_format", "needs a 'type'");
  const bool schema = type == "json_schema";
  if (type && *type != "text" && !schema) {
    return refuse("response_format", "must be of type text or json_schema for this target");
  }
  if (effort_word.empty() && !schema) return;
  w_.key("output_config").open('{');
  if (!effort_word.empty()) w_.key("effort").text(effort_word);
  if (schema) {
    const std::string_view json =
        text_of(text_of(text_of(source_.text(), "response_format"), "json_schema"), "schema");
    if (!json.starts_with('{')) return in_.fail("response_format", "needs 'json_schema' with a 'schema'");
    w_.key("format").open('{').key("type").text("json_schema").key("schema").raw(json).close('}');
  }
  w_.close('}');
}

void request_translator::write_caller() {
  std::string_view user;
  for (const std::string_view key : {"safety_identifier", "user"}) {
    const auto value = in_.find(key);
    if (value && user.empty() && value->get(user)) user = {};
  }
  if (!user.empty()) w_.key("metadata").open('{').key("user_id").text(user).close('}');
}

result<std::string> request_translator::run() {
  std::string model;
  in_.text("model", model);
  bool stream = false;
  in_.flag("stream", stream);
  out_.reserve(source_.text().size() + 512);
  w_.open('{').key("model").text(target_.model.empty() ? std::string_view(model) : target_.model);
  write_limits();
  refuse_what_has_no_counterpart();
  const auto turns = write_turns(in_);
  if (!turns.system.empty()) w_.key("system").open('[').raw(turns.system).close(']');
  w_.key("messages").open('[').raw(turns.turns).close(']');
  write_tools();
  write_tool_choice();
  write_thinking(turns.in_tool_turn);
  write_sampling();
  write_stop();
  write_caller();
  if (stream) w_.key("stream").flag(true);
  w_.close('}');
  if (!in_.ok()) return std::unexpected(*in_.first_error());
  if (refusal_) return std::unexpected(std::move(*refusal_));
  return std::move(out_);
}

}  // namespace

result<std::string> to_messages_request(const std::string& body, const messages_target& target) {
  const auto source = source_json::parse(body);
  if (!source) return std::unexpected(source.error());
  return request_translator(*source, target).run();
}

}  // namespace weir::gateway::dialects
