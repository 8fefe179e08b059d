#include "loadtest/mock/completion_ask.hpp"

#include <algorithm>
#include <cassert>
#include <limits>

#include "loadtest/mock/options.hpp"
#include "loadtest/mock/prompt_tokens.hpp"
#include "loadtest/mock/request_reader.hpp"

namespace weir::loadtest::mock {

namespace {

using simdjson::error_code;
namespace ondemand = simdjson::ondemand;

static_assert(k_body_padding_bytes >= simdjson::SIMDJSON_PADDING);

error_code copy_string(ondemand::value value, std::string& out) {
  std::string_view text;
  const auto error = value.get_string().get(text);
  if (!error) out = text;
  return error;
}

// A content is a string or a list of parts, of which those with a text count.
error_code copy_content(ondemand::value value, std::string& out) {
  out.clear();
  ondemand::array parts;
  if (value.get_array().get(parts)) {
    std::string_view text;
    if (!value.get_string().get(text)) out = text;
    return simdjson::SUCCESS;
  }
  for (auto part : parts) {
    ondemand::object object;
    if (const auto error = part.get_object().get(object)) return error;
    std::string_view text;
    if (!object.find_field_unordered("text").get_string().get(text)) out += text;
  }
  return simdjson::SUCCESS;
}

// The last user message's text and, where the prompt is wished for, the canonical text of all.
error_code take_messages(ondemand::value messages, const ask_wishes& wishes, completion_ask& ask,
                         std::string& canonical) {
  ondemand::array list;
  if (const auto error = messages.get_array().get(list)) return error;
  for (auto message : list) {
    ondemand::object object;
    if (const auto error = message.get_object().get(object)) return error;
    std::string role;
    std::string content;
    for (auto field : object) {
      std::string_view key;
      ondemand::value value;
      if (const auto error = field.unescaped_key().get(key)) return error;
      if (const auto error = field.value().get(value)) return error;
      if (key == "role") {
        if (const auto error = copy_string(value, role)) return error;
      } else if (key == "content") {
        if (const auto error = copy_content(value, content)) return error;
      }
    }
    if (wishes.prompt) append_message(role, content, canonical);
    if (wishes.text && role == "user") ask.text = std::move(content);
  }
  return simdjson::SUCCESS;
}

// A text, or the tokens themselves.
error_code take_prompt(ondemand::value value, const ask_wishes& wishes, completion_ask& ask,
                       std::string& canonical) {
  ondemand::json_type type{};
  if (const auto error = value.type().get(type)) return error;
  if (!wishes.prompt || type != ondemand::json_type::array) {
    if (const auto error = copy_content(value, ask.text)) return error;
    if (wishes.prompt) canonical = ask.text;
    return simdjson::SUCCESS;
  }
  ondemand::array tokens;
  if (const auto error = value.get_array().get(tokens)) return error;
  for (auto token : tokens) {
    std::int64_t id = 0;
    if (const auto error = token.get_int64().get(id)) return error;
    if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) return simdjson::NUMBER_OUT_OF_RANGE;
    ask.prompt.push_back(static_cast<std::int32_t>(id));
  }
  return simdjson::SUCCESS;
}

error_code take_hints(ondemand::value value, completion_ask& ask) {
  ondemand::array list;
  if (value.get_array().get(list)) return simdjson::SUCCESS;  // null
  for (auto one : list) {
    std::int64_t at = 0;
    if (const auto error = one.get_int64().get(at)) return error;
    if (at < 0 || ask.checkpoint_at.size() == k_hints_max) return simdjson::NUMBER_OUT_OF_RANGE;
    ask.checkpoint_at.push_back(at);
  }
  return simdjson::SUCCESS;
}

error_code take_max_tokens(ondemand::value value, completion_ask& ask) {
  bool null = false;
  if (!value.is_null().get(null) && null) return simdjson::SUCCESS;
  std::int64_t count = 0;
  if (const auto error = value.get_int64().get(count)) return error;
  if (count < 1) return simdjson::NUMBER_OUT_OF_RANGE;
  ask.max_tokens = std::min(count, k_tokens_max);
  return simdjson::SUCCESS;
}

error_code take_stream_options(ondemand::value value, completion_ask& ask) {
  ondemand::object object;
  if (value.get_object().get(object)) return simdjson::SUCCESS;  // null
  bool wanted = false;
  if (!object.find_field_unordered("include_usage").get_bool().get(wanted)) ask.include_usage = wanted;
  return simdjson::SUCCESS;
}

error_code take_one_choice(ondemand::value value) {
  std::int64_t count = 0;
  if (value.get_int64().get(count)) return simdjson::SUCCESS;  // null
  return count == 1 ? simdjson::SUCCESS : simdjson::NUMBER_OUT_OF_RANGE;
}

error_code take_field(std::string_view key, ondemand::value value, const ask_wishes& wishes,
                      completion_ask& ask, std::string& canonical) {
  if (key == "model") return copy_string(value, ask.model);
  if (key == "stream") {
    bool wanted = false;
    if (!value.get_bool().get(wanted)) ask.stream = wanted;
    return simdjson::SUCCESS;
  }
  if (key == "max_tokens" || key == "max_completion_tokens") return take_max_tokens(value, ask);
  if (key == "stream_options") return take_stream_options(value, ask);
  if (key == "n") return take_one_choice(value);
  if (key == "mock_fault") return copy_string(value, ask.fault);
  if (wishes.prompt && key == "weir_checkpoint_at") return take_hints(value, ask);
  if (wishes.prompt && key == "cache_salt") {
    std::string_view salt;
    if (!value.get_string().get(salt)) ask.cache_salt = salt;
    return simdjson::SUCCESS;
  }
  if (!wishes.text && !wishes.prompt) return simdjson::SUCCESS;
  if (ask.chat && key == "messages") return take_messages(value, wishes, ask, canonical);
  if (!ask.chat && key == "prompt") return take_prompt(value, wishes, ask, canonical);
  return simdjson::SUCCESS;
}

error_code take_fields(ondemand::object object, const ask_wishes& wishes, completion_ask& ask,
                       std::string& at) {
  bool has_input = false;
  std::string canonical;
  for (auto field : object) {
    std::string_view key;
    ondemand::value value;
    if (const auto error = field.unescaped_key().get(key)) return error;
    at = key;
    if (const auto error = field.value().get(value)) return error;
    has_input = has_input || key == (ask.chat ? "messages" : "prompt");
    if (const auto error = take_field(at, value, wishes, ask, canonical)) return error;
  }
  at = ask.chat ? "messages" : "prompt";
  if (wishes.prompt) {
    append_tokens(canonical, ask.prompt);
    ask.prompt_tokens = static_cast<std::int64_t>(ask.prompt.size());
    if (ask.prompt.empty()) return simdjson::EMPTY;
  }
  return has_input ? simdjson::SUCCESS : simdjson::NO_SUCH_FIELD;
}

}  // namespace

std::expected<completion_ask, std::string> parse_completion(ondemand::parser& parser, const std::string& body,
                                                            bool chat, const ask_wishes& wishes) {
  assert(body.capacity() >= body.size() + simdjson::SIMDJSON_PADDING);
  completion_ask ask;
  ask.chat = chat;
  ask.prompt_tokens = std::max<std::int64_t>(1, static_cast<std::int64_t>(body.size() / 4));
  const simdjson::padded_string_view view(body.data(), body.size(), body.capacity());
  ondemand::document document;
  ondemand::object object;
  if (parser.iterate(view).get(document) || document.get_object().get(object))
    return std::unexpected("the body is not a JSON object");
  std::string at;
  if (const auto error = take_fields(object, wishes, ask, at))
    return std::unexpected("'" + at + "': " + simdjson::error_message(error));
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS)
    return std::unexpected("bytes behind the JSON object");
  return ask;
}

}  // namespace weir::loadtest::mock
