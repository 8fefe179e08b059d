#include "gateway/relay/event_inspector.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "gateway/api/json.hpp"
#include "gateway/api/logprobs_json.hpp"
#include "gateway/relay/event_splitter.hpp"

namespace weir::gateway::relay {

namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::size_t k_error_message_bytes_max = 2048;
constexpr std::size_t k_error_word_bytes_max = 128;
constexpr std::size_t k_kept_bytes_max = 1 << 20;  // of parser and buffer, between two events
constexpr std::string_view k_byte_order_mark = "\xEF\xBB\xBF";

// Nothing a client would show: null, false, an empty string, array or object.
bool is_empty(element value) {
  using type = simdjson::dom::element_type;
  switch (value.type()) {
    case type::NULL_VALUE:
      return true;
    case type::BOOL:
      return !value.get_bool().value_unsafe();
    case type::STRING:
      return value.get_string().value_unsafe().empty();
    case type::ARRAY:
      return value.get_array().value_unsafe().begin() == value.get_array().value_unsafe().end();
    case type::OBJECT:
      return value.get_object().value_unsafe().begin() == value.get_object().value_unsafe().end();
    default:
      return false;
  }
}

bool shows_something(object choice) {
  object delta;
  element text;
  if (!choice.at_key("text").get(text) && !is_empty(text)) return true;
  if (choice.at_key("delta").get(delta)) return false;
  return std::any_of(delta.begin(), delta.end(),
                     [](const auto& field) { return field.key != "role" && !is_empty(field.value); });
}

// A whole number, with a fraction of nothing too; what no answer can have used is as if it was not reported.
std::int64_t count_of(object usage, std::string_view key, std::int64_t otherwise) {
  double value = 0;
  if (usage.at_key(key).get(value) || value != std::trunc(value)) return otherwise;
  if (value < 0 || value > static_cast<double>(api::k_reported_tokens_max)) return otherwise;
  return static_cast<std::int64_t>(value);
}

std::optional<api::token_usage> read_usage(object from) {
  object usage;
  if (from.at_key("usage").get(usage)) return std::nullopt;
  api::token_usage out;
  // The responses API has other names for the same counts.
  out.prompt_tokens = count_of(usage, "prompt_tokens", count_of(usage, "input_tokens", -1));
  out.completion_tokens = count_of(usage, "completion_tokens", count_of(usage, "output_tokens", -1));
  out.cached_tokens = count_of(usage, "cached_tokens", -1);  // Moonshot's place
  for (const char* key : {"prompt_tokens_details", "input_tokens_details"}) {
    object details;
    if (usage.at_key(key).get(details)) continue;
    out.cached_tokens = count_of(details, "cached_tokens", out.cached_tokens);
    out.cache_write_tokens = count_of(details, "cache_write_tokens", -1);
  }
  return out;
}

// Depth is bounded by the parser.
std::int64_t text_bytes(element value) {
  std::string_view text;
  array list;
  object fields;
  std::int64_t sum = 0;
  if (!value.get(text)) return static_cast<std::int64_t>(text.size());
  if (!value.get(list)) {
    for (const auto entry : list) sum += text_bytes(entry);
  } else if (!value.get(fields)) {
    for (const auto field : fields) sum += field.key == "role" ? 0 : text_bytes(field.value);
  }
  return sum;
}

std::int64_t content_bytes(object reply) {
  array choices;
  element output;
  std::int64_t sum = 0;
  if (!reply.at_key("output").get(output)) sum += text_bytes(output);  // of the responses API
  if (!reply.at_key("content").get(choices)) {                         // of the messages API
    for (const auto block : choices) {
      for (const char* key : {"text", "thinking", "input"}) {
        if (!block.at_key(key).get(output)) sum += text_bytes(output);
      }
    }
    return sum;
  }
  if (reply.at_key("choices").get(choices)) return sum;
  for (const auto choice : choices) {
    for (const char* key : {"message", "text"}) {
      element content;
      if (!choice.at_key(key).get(content)) sum += text_bytes(content);
    }
  }
  return sum;
}

int status_of(element value) {
  std::int64_t number = 0;
  std::string_view text;
  if (value.get(number) && !value.get(text)) {
    const auto [stop, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (ec != std::errc() || stop != text.data() + text.size()) return 0;
  }
  return number >= 400 && number <= 599 ? static_cast<int>(number) : 0;
}

void read_word(object fields, std::string_view key, std::string& out) {
  std::string_view word;
  if (!fields.at_key(key).get(word)) out = api::valid_utf8(word.substr(0, k_error_word_bytes_max));
}

void tell_error(std::string_view message, event_facts& out) {
  out.what = event_kind::error;
  out.error_message = api::valid_utf8(message.substr(0, k_error_message_bytes_max));
}

void read_error(object fields, event_facts& out) {
  for (const char* key : {"code", "status", "status_code"}) {
    element value;
    if (out.error_status == 0 && !fields.at_key(key).get(value)) out.error_status = status_of(value);
  }
  std::string_view message;
  if (fields.at_key("message").get(message)) message = {};
  read_word(fields, "code", out.error_code);
  read_word(fields, "type", out.error_type);
  tell_error(message, out);
}

void read_error(element error, event_facts& out) {
  std::string_view message;
  object fields;
  if (!error.get(fields)) return read_error(fields, out);
  tell_error(error.get(message) ? std::string_view() : message, out);
}

std::uint64_t choice_bit(object choice) {
  std::uint64_t index = 0;
  if (choice.at_key("index").get(index)) index = 0;
  return index < 64 ? std::uint64_t{1} << index : 0;
}

void read_choices(object root, event_facts& out) {
  array choices;
  const bool none = root.at_key("choices").get(choices) || choices.begin() == choices.end();
  out.what = none && out.usage ? event_kind::usage : event_kind::preamble;
  if (none) return;
  for (const auto entry : choices) {
    object choice;
    if (entry.get(choice)) continue;
    element reason;
    const bool finished = !choice.at_key("finish_reason").get(reason) && !reason.is_null();
    const std::uint64_t bit = choice_bit(choice);
    out.seen_choices |= bit;
    if (finished) out.finished_choices |= bit;
    const bool shows = shows_something(choice);
    out.shown_choices += shows ? 1 : 0;
    if (finished || shows) out.what = event_kind::content;
    if (!out.usage) out.usage = read_usage(choice);
  }
}

// Of the responses API: what opens an answer or a part of it shows nothing yet.
constexpr std::string_view k_openings[] = {
    "response.created",           "response.in_progress",        "response.queued",
    "response.output_item.added", "response.content_part.added", "response.reasoning_summary_part.added"};

void read_typed(object root, event_facts& out) {
  std::string_view type;
  object response;
  element error;
  if (root.at_key("type").get(type)) type = {};
  const bool has_response = !root.at_key("response").get(response);
  if (has_response) out.usage = read_usage(response);
  if (type == "response.failed") {
    out.what = event_kind::error;
    if (has_response && !response.at_key("error").get(error)) read_error(error, out);
  } else if (!root.at_key("error").get(error) && !is_empty(error)) {
    read_error(error, out);
  } else if (type == "error") {
    read_error(root, out);
  } else if (type == "response.completed" || type == "response.incomplete") {
    out.what = event_kind::last;
  } else if (std::find(std::begin(k_openings), std::end(k_openings), type) != std::end(k_openings)) {
    out.what = event_kind::preamble;
  } else {
    out.what = event_kind::content;
    out.shown_choices = type.ends_with(".delta") ? 1 : 0;
  }
}

std::optional<api::token_usage> read_messages_usage(object from) {
  object usage;
  if (from.at_key("usage").get(usage)) return std::nullopt;
  return api::token_usage{.prompt_tokens = count_of(usage, "input_tokens", -1),
                          .completion_tokens = count_of(usage, "output_tokens", -1),
                          .cached_tokens = count_of(usage, "cache_read_input_tokens", -1),
                          .cache_write_tokens = count_of(usage, "cache_creation_input_tokens", -1)};
}

// A block of text or thinking opens empty; any other one names what it is.
bool opens_empty(object root) {
  object block;
  element text;
  if (root.at_key("content_block").get(block)) return true;
  for (const char* key : {"text", "thinking"}) {
    if (!block.at_key(key).get(text)) return is_empty(text);
  }
  return false;
}

void read_message_event(object root, event_facts& out) {
  std::string_view type;
  object message;
  element error;
  if (root.at_key("type").get(type)) type = {};
  out.what = event_kind::preamble;
  if (!root.at_key("error").get(error) && !is_empty(error)) {
    read_error(error, out);
  } else if (type == "ping") {
    out.what = event_kind::comment;
  } else if (type == "message_start") {
    if (!root.at_key("message").get(message)) out.usage = read_messages_usage(message);
  } else if (type == "message_delta") {
    out.what = event_kind::content;
    out.usage = read_messages_usage(root);
  } else if (type == "message_stop") {
    out.what = event_kind::last;
  } else if (type == "content_block_delta" || (type == "content_block_start" && !opens_empty(root))) {
    out.what = event_kind::content;
    out.shown_choices = 1;
  }
}

}  // namespace

api::token_usage whole_usage(api::token_usage said) noexcept {
  if (said.prompt_tokens < 0) return said;
  said.prompt_tokens +=
      std::max<std::int64_t>(said.cached_tokens, 0) + std::max<std::int64_t>(said.cache_write_tokens, 0);
  return said;
}

// Lines of the event whose field is data, joined by LF.
bool event_inspector::join_data(std::string_view event) {
  bool any = false;
  data_.clear();
  if (event.starts_with(k_byte_order_mark)) event.remove_prefix(k_byte_order_mark.size());
  while (!event.empty()) {
    const std::size_t end = find_line_end(event, 0);
    std::string_view line = event.substr(0, end);
    event.remove_prefix(std::min(end + 1, event.size()));
    const std::string_view name = line.substr(0, line.find(':'));
    if (name != "data") continue;
    line.remove_prefix(std::min(name.size() + 1, line.size()));
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (any) data_ += '\n';
    any = true;
    data_ += line;
  }
  return any;
}

event_facts event_inspector::inspect(std::string_view event, event_shape shape) {
  const bool any = join_data(event);
  event_facts out = any ? read_data(shape) : event_facts{.what = event_kind::comment};
  if (data_.capacity() > k_kept_bytes_max) {
    std::string().swap(data_);  // an assignment keeps the memory
    parser_ = simdjson::dom::parser();
  }
  return out;
}

event_facts event_inspector::read_data(event_shape shape) {
  event_facts out;
  if (std::string_view(data_).substr(0, data_.find_last_not_of(' ') + 1) == "[DONE]") {
    out.what = event_kind::done;
    return out;
  }
  data_.reserve(data_.size() + simdjson::SIMDJSON_PADDING);
  object root;
  if (parser_.parse(data_.data(), data_.size(), false).get(root)) {
    // The padding outlives the edit, which keeps the size.
    if (!api::tame_numbers(data_) || parser_.parse(data_.data(), data_.size(), false).get(root)) return out;
  }
  if (shape == event_shape::responses) {
    read_typed(root, out);
    return out;
  }
  if (shape == event_shape::messages) {
    read_message_event(root, out);
    return out;
  }
  out.usage = read_usage(root);
  element error;
  if (!root.at_key("error").get(error) && !is_empty(error)) {
    read_error(error, out);
  } else {
    read_choices(root, out);
  }
  return out;
}

std::optional<reply_facts> event_inspector::inspect_reply(std::string_view body, event_shape shape) {
  object root;
  std::string tamed;
  if (parser_.parse(body.data(), body.size()).get(root)) {
    tamed = body;
    if (!api::tame_numbers(tamed) || parser_.parse(tamed).get(root)) return std::nullopt;
  }
  reply_facts out;
  if (shape == event_shape::messages) {
    out.usage = whole_usage(read_messages_usage(root).value_or(api::token_usage{}));
  } else {
    out.usage = read_usage(root).value_or(api::token_usage{});
  }
  if (out.usage.completion_tokens <= 0) out.content_bytes = content_bytes(root);
  element error;
  array choices;
  if (root.at_key("choices").get(choices) && !root.at_key("error").get(error) && !is_empty(error)) {
    read_error(error, out.error.emplace());
  }
  if (body.size() > k_kept_bytes_max) parser_ = simdjson::dom::parser();
  return out;
}

}  // namespace weir::gateway::relay
