#include "gateway/api/generation_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "gateway/api/json.hpp"

namespace weir::gateway::api {

namespace {

using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::int64_t k_choices_max = 16'384;               // as vLLM bounds n
constexpr std::int64_t k_count_max = std::int64_t{1} << 31;  // nobody means more; products stay in range

bool names_media(std::string_view word) {
  return word.find("image") != word.npos || word.find("video") != word.npos ||
         word.find("audio") != word.npos || word == "input_file";
}

// vLLM takes a part without a type by its other key.
bool is_media(object part) {
  std::string_view type;
  if (!part.at_key("type").get(type)) return names_media(type);
  return std::any_of(part.begin(), part.end(), [](const auto& field) { return names_media(field.key); });
}

void read_parts(object message, generation_call& out) {
  simdjson::dom::array parts;
  if (message.at_key("content").get(parts)) return;
  for (const auto entry : parts) {
    object part;
    std::string_view type;
    if (entry.get(part)) continue;
    out.media_parts += is_media(part) ? 1 : 0;
    const bool image =
        !part.at_key("type").get(type) && (type == "image_url" || type == "input_image" || type == "image");
    out.facts.needs_image = out.facts.needs_image || image;
  }
}

void read_messages(const field_reader& in, std::string_view key, generation_call& out) {
  const auto value = in.find(key);
  simdjson::dom::array messages;
  if (!value || value->get(messages)) return;
  for (const auto entry : messages) {
    object message;
    if (!entry.get(message)) read_parts(message, out);
  }
}

bool wants_json(const field_reader& in) {
  auto format = in.find("response_format");
  simdjson::dom::object text;  // of the responses API
  element inner;
  const auto holder = in.find("text");
  if (holder && !holder->get(text) && !text.at_key("format").get(inner)) format = inner;
  std::string_view type;
  return format && !format->at_key("type").get(type) && (type == "json_object" || type == "json_schema");
}

// Every object form of tool_choice names what must be called, but for a list with mode auto.
bool forces_tool(const field_reader& in) {
  const auto choice = in.find("tool_choice");
  if (!choice) return false;
  std::string_view word;
  if (!choice->get(word)) return word == "required";
  object form;
  return !choice->get(form) && (form.at_key("mode").get(word) || word != "auto");
}

// Fields under which targets know the most tokens of a choice, and the number of choices: OpenAI's, vLLM's,
// SGLang's and llama.cpp's. A target that does not know one ignores it, so the largest counts.
constexpr std::array<std::string_view, 5> k_output_fields{"max_tokens", "max_completion_tokens",
                                                          "max_output_tokens", "max_new_tokens", "n_predict"};
constexpr std::array<std::string_view, 5> k_choice_fields{"n", "best_of", "n_cmpl", "num_choices",
                                                          "num_return_sequences"};

// Targets read "100", 1e2 and true as a number, each in its own way; what all read alike is a whole number.
// 0 where there is none.
std::int64_t count_in(field_reader& in, std::string_view key) {
  const auto value = in.find(key);
  double number = 0;
  if (!value) return 0;
  if (value->get(number) || number != std::trunc(number)) {
    in.fail(key, "must be a whole number");
    return 0;
  }
  constexpr auto most = static_cast<double>(k_count_max);
  if (number > most || number < -most) {
    in.fail(key, fmt::format("is out of range: at most {}", k_count_max));
    return 0;
  }
  return static_cast<std::int64_t>(std::max(number, -1.0));
}

// Prompts of a completions request: one, or the entries of a list that is not one list of ids.
std::int64_t prompts_in(const field_reader& in) {
  const auto entries = [&](std::string_view key) {
    const auto value = in.find(key);
    simdjson::dom::array list;
    if (!value || value->get(list) || list.size() == 0 || list.at(0).is_number()) return std::int64_t{0};
    return static_cast<std::int64_t>(list.size());
  };
  return std::max<std::int64_t>(1, entries("prompt") + entries("prompt_embeds"));
}

void read_extent(object root, field_reader& in, generation_call& out) {
  const bool chat = out.kind == generation_kind::chat;
  for (const auto key : k_output_fields) {
    element value;
    if (root.at_key(key).get(value)) continue;
    const std::int64_t count = count_in(in, key);
    out.output_tokens_max = std::max(out.output_tokens_max, count);
    // A completion of nothing scores its prompt.
    const bool bounds = count > 0 || (count == 0 && !chat && !value.is_null());
    if (!bounds) out.loose_fields.push_back(key);
    const bool is_known = out.kind == generation_kind::responses
                              ? key == "max_output_tokens"
                              : key == "max_tokens" || (chat && key == "max_completion_tokens");
    out.output_bounded = out.output_bounded || (bounds && is_known);
  }
  out.output_bounded = out.output_bounded && out.loose_fields.empty();
  std::int64_t each = 1;
  for (const auto key : k_choice_fields) {
    const std::int64_t count = count_in(in, key);
    if (count > k_choices_max) in.fail(key, fmt::format("may be at most {}", k_choices_max));
    each = std::max(each, count);
  }
  out.choices = std::min(each * prompts_in(in), k_count_max);
}

enum class tool_kind { client, group, search, other };

tool_kind kind_of(element tool) {
  static constexpr std::string_view k_client[] = {"function", "custom", "local_shell", "apply_patch",
                                                  "tool_search"};
  std::string_view type;
  if (tool.at_key("type").get(type)) return tool_kind::other;
  if (type == "namespace") return tool_kind::group;
  if (type.starts_with("web_search")) return tool_kind::search;
  const bool is_client = std::find(std::begin(k_client), std::end(k_client), type) != std::end(k_client);
  return is_client ? tool_kind::client : tool_kind::other;
}

void check_tools(element declared, bool inner, field_reader& in, generation_call& out) {
  simdjson::dom::array tools;
  if (declared.get(tools)) return;
  for (const auto tool : tools) {
    const auto kind = kind_of(tool);
    element members;
    out.searches = out.searches || kind == tool_kind::search;
    if (kind == tool_kind::group && !inner && !tool.at_key("tools").get(members)) {
      check_tools(members, true, in, out);
    } else if (kind == tool_kind::other || (inner && kind != tool_kind::client)) {
      in.fail("tools",
              "may be of type function, custom, namespace, tool_search, local_shell, apply_patch or "
              "web_search here");
    }
  }
}

// What a target would keep between requests is no target's that the next request may go to, and what it would
// do by itself, such as asking a host that the client names, is not bounded by tokens.
void check_stateless(field_reader& in, generation_call& out) {
  for (const std::string_view key : {"previous_response_id", "conversation", "prompt"}) {
    if (in.find(key)) in.fail(key, "is not kept here; send the whole conversation as 'input'");
  }
  bool background = false;
  in.flag("background", background);
  if (background) in.fail("background", "answers are not kept here; leave it out");
  if (const auto declared = in.find("tools")) check_tools(*declared, false, in, out);
}

// Depth is bounded by the parser. What a model says to a tool is its own affair.
bool holds_key(element value, std::string_view wanted) {
  simdjson::dom::array list;
  object fields;
  if (!value.get(list)) {
    return std::any_of(list.begin(), list.end(), [&](element entry) { return holds_key(entry, wanted); });
  }
  if (value.get(fields)) return false;
  return std::any_of(fields.begin(), fields.end(), [&](const auto& field) {
    return field.key == wanted || (field.key != "input" && holds_key(field.value, wanted));
  });
}

// The same of the messages API: files and containers there belong to all who share a key of ours.
void check_messages(field_reader& in) {
  static constexpr std::string_view k_client_tools[] = {"bash_", "text_editor_", "computer_", "memory_"};
  for (const std::string_view key : {"mcp_servers", "container"}) {
    if (in.find(key)) in.fail(key, "is not passed on; leave it out");
  }
  for (const std::string_view key : {"system", "messages"}) {
    const auto value = in.find(key);
    if (value && holds_key(*value, "file_id")) in.fail(key, "may not name files; send their content");
  }
  simdjson::dom::array tools;
  const auto declared = in.find("tools");
  if (!declared || declared->get(tools)) return;
  for (const auto tool : tools) {
    std::string_view type;
    if (tool.at_key("type").get(type)) type = "custom";
    const bool is_client = std::any_of(std::begin(k_client_tools), std::end(k_client_tools),
                                       [&](std::string_view one) { return type.starts_with(one); });
    if (type != "custom" && !is_client) {
      in.fail("tools", "may be of type custom, bash, text_editor, computer or memory here");
    }
  }
}

bool is_messages(generation_kind kind) noexcept {
  return kind == generation_kind::messages || kind == generation_kind::count_tokens;
}

policy::endpoint asked_of(generation_kind kind) noexcept {
  switch (kind) {
    case generation_kind::chat:
      return policy::endpoint::chat;
    case generation_kind::completions:
      return policy::endpoint::completions;
    case generation_kind::embeddings:
      return policy::endpoint::embeddings;
    case generation_kind::responses:
      return policy::endpoint::responses;
    case generation_kind::messages:
      return policy::endpoint::messages;
    case generation_kind::count_tokens:
      return policy::endpoint::count_tokens;
  }
  return policy::endpoint::chat;
}

void read_call(object root, generation_call& out, std::optional<error>& fault) {
  field_reader in(root);
  in.text("model", out.model);
  if (in.ok() && out.model.empty()) in.fail("model", "is required: the name of a model from GET /v1/models");
  if (out.kind == generation_kind::embeddings) {
    if (in.ok() && !in.find("input")) in.fail("input", "is required: the text to embed");
    out.facts.asks = policy::endpoint::embeddings;
    out.output_bounded = true;
    fault = in.first_error();
    return;
  }
  in.flag("stream", out.stream);
  if (const auto options = in.object("stream_options")) {
    field_reader inner(*options, "stream_options");
    inner.flag("include_usage", out.include_usage);
    in.adopt(inner);
  }
  in.text("cache_salt", out.cache_salt);
  if (out.cache_salt.size() > k_cache_salt_bytes_max) {
    in.fail("cache_salt", fmt::format("may hold at most {} bytes", k_cache_salt_bytes_max));
  }
  out.facts.asks = asked_of(out.kind);
  // It always comes, within the answer.
  out.include_usage =
      out.include_usage || out.kind == generation_kind::responses || out.kind == generation_kind::messages;
  read_extent(root, in, out);
  std::string_view session;
  if (const auto named = in.find("prompt_cache_key"); named && !named->get(session)) {
    name_session(out, session);
  }
  simdjson::dom::array tools;
  const auto declared = in.find("tools");
  out.has_tools = declared && !declared->get(tools) && tools.size() > 0;
  read_messages(in, out.kind == generation_kind::responses ? "input" : "messages", out);
  if (out.kind == generation_kind::responses) check_stateless(in, out);
  if (is_messages(out.kind)) check_messages(in);
  out.facts.needs_structured_output = wants_json(in);
  out.facts.needs_forced_tool = forces_tool(in);
  fault = in.first_error();
}

}  // namespace

void name_session(generation_call& call, std::string_view name) {
  if (call.session.empty() && name.size() <= k_session_bytes_max) call.session = name;
}

result<generation_call> read_generation_call(generation_kind kind, std::string body) {
  generation_call out{.kind = kind, .body = std::move(body), .model = {}, .facts = {}};
  auto document = json_document::parse(out.body);
  std::string tamed;
  if (!document && document.error().code == errc::bad_request) {
    tamed = out.body;
    if (tame_numbers(tamed)) document = json_document::parse(tamed);
  }
  if (!document) return std::unexpected(document.error());
  std::optional<error> fault;
  read_call(document->root(), out, fault);
  if (fault) return std::unexpected(std::move(*fault));
  return out;
}

}  // namespace weir::gateway::api
