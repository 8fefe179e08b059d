#include "gateway/dialects/messages_turns.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/dialects/json_writer.hpp"
#include "gateway/dialects/source_json.hpp"

namespace weir::gateway::dialects {

namespace {

using api::excerpt;
using api::field_reader;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::string_view k_image_types[] = {"image/jpeg", "image/png", "image/gif", "image/webp"};

// Ids there are letters, digits, '_' and '-'. Any other byte becomes '_' and its code, so that a call and its
// result still meet.
std::string tool_id(std::string_view id) {
  std::string out;
  for (const char c : id) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (plain) {
      out += c;
    } else {
      out += fmt::format("_{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

class turn_writer {
 public:
  void read_message(field_reader& in);
  messages_turns finish();

 private:
  void read_content(field_reader& in);
  void read_part(field_reader& in, object part);
  void read_image(field_reader& in, object part);
  void read_tool_calls(field_reader& in);
  void read_tool_result(field_reader& in);
  void write_text(std::string_view text, const object* part);
  void write_image_source(field_reader& in, std::string_view url);
  json_writer& block();  // where the next block of `side_` goes

  messages_turns out_;
  json_writer system_{out_.system};
  json_writer turns_{out_.turns};
  std::string_view side_;       // of the message being read: system, user, assistant
  std::string_view open_side_;  // of the turn that is open
  bool in_result_ = false;      // blocks go into an open tool_result
};

json_writer& turn_writer::block() {
  if (side_ == "system") return system_;
  if (in_result_ || side_ == open_side_) return turns_;
  if (!open_side_.empty()) turns_.close(']').close('}');
  open_side_ = side_;
  turns_.open('{').key("role").text(side_).key("content").open('[');
  return turns_;
}

// An empty text is an error there.
void turn_writer::write_text(std::string_view text, const object* part) {
  if (text.empty()) return;
  auto& w = block().open('{').key("type").text("text").key("text").text(text);
  element cache;
  if (part != nullptr && !part->at_key("cache_control").get(cache) && cache.is_object()) {
    w.key("cache_control").raw(simdjson::minify(cache));
  }
  w.close('}');
}

void turn_writer::write_image_source(field_reader& in, std::string_view url) {
  if (url.starts_with("http://") || url.starts_with("https://")) {
    block().open('{').key("type").text("image").key("source").open('{');
    turns_.key("type").text("url").key("url").text(url).close('}').close('}');
    return;
  }
  const std::size_t comma = url.find(',');
  std::string_view type = url.substr(0, comma);
  if (comma == std::string_view::npos || !type.starts_with("data:") || !type.ends_with(";base64")) {
    return in.fail("content", "has an image that is neither an http URL nor a base64 data URL");
  }
  type = type.substr(5, type.size() - 12);
  if (type == "image/jpg") type = "image/jpeg";
  if (std::find(std::begin(k_image_types), std::end(k_image_types), type) == std::end(k_image_types)) {
    return in.fail("content", fmt::format("has an image of type '{}'; this target takes jpeg, png, gif, webp",
                                          excerpt(type)));
  }
  block().open('{').key("type").text("image").key("source").open('{');
  turns_.key("type").text("base64").key("media_type").text(type);
  turns_.key("data").text(url.substr(comma + 1)).close('}').close('}');
}

void turn_writer::read_image(field_reader& in, object part) {
  object image;
  std::string_view url;
  if (part.at_key("image_url").get(image) || image.at_key("url").get(url)) {
    return in.fail("content", "has an image_url part without image_url.url");
  }
  write_image_source(in, url);
}

void turn_writer::read_part(field_reader& in, object part) {
  const auto type = string_in(part, "type");
  if (!type) return in.fail("content", "parts need a 'type'");
  if (*type == "text" || (*type == "refusal" && side_ == "assistant")) {
    const auto text = string_in(part, *type);
    if (!text) return in.fail("content", fmt::format("parts of type '{0}' need a string '{0}'", *type));
    return write_text(*text, &part);
  }
  if (*type == "image_url" && side_ == "user") return read_image(in, part);
  in.fail("content", fmt::format("parts of type '{}' cannot be sent to this target", excerpt(*type)));
}

void turn_writer::read_content(field_reader& in) {
  const auto content = in.find("content");
  std::string_view text;
  simdjson::dom::array parts;
  if (!content) return;
  if (!content->get(text)) return write_text(text, nullptr);
  if (content->get(parts)) return in.fail("content", "must be a string or an array of parts");
  for (const auto entry : parts) {
    object part;
    if (entry.get(part)) return in.fail("content", "parts must be objects");
    read_part(in, part);
    if (!in.ok()) return;
  }
}

void turn_writer::read_tool_calls(field_reader& in) {
  const auto calls = in.array("tool_calls");
  if (!calls) return;
  for (const auto entry : *calls) {
    object call;
    object function;
    if (entry.get(call) || call.at_key("function").get(function)) {
      return in.fail("tool_calls", "entries need a 'function'; this target knows no other tools");
    }
    const auto id = string_in(call, "id");
    const auto name = string_in(function, "name");
    const auto arguments = string_in(function, "arguments");
    if (!id || id->empty() || !name || !arguments) {
      return in.fail("tool_calls", "entries need 'id' and 'function' with string 'name' and 'arguments'");
    }
    const std::string input(arguments->empty() ? "{}" : *arguments);
    if (!is_object(input)) {
      return in.fail("tool_calls", "hold arguments that are not one JSON object, which this target needs");
    }
    block().open('{').key("type").text("tool_use").key("id").text(tool_id(*id)).key("name").text(*name);
    turns_.key("input").raw(input).close('}');
    out_.in_tool_turn = true;
  }
}

void turn_writer::read_tool_result(field_reader& in) {
  std::string id;
  in.text("tool_call_id", id);
  if (in.ok() && id.empty()) in.fail("tool_call_id", "is required for role 'tool'");
  block().open('{').key("type").text("tool_result").key("tool_use_id").text(tool_id(id));
  turns_.key("content").open('[');
  in_result_ = true;
  read_content(in);
  in_result_ = false;
  turns_.close(']').close('}');
}

void turn_writer::read_message(field_reader& in) {
  std::string role;
  in.text("role", role);
  if (role == "system" || role == "developer") {
    side_ = "system";
    read_content(in);
  } else if (role == "user") {
    side_ = "user";
    out_.in_tool_turn = false;
    read_content(in);
  } else if (role == "assistant") {
    side_ = "assistant";
    read_content(in);
    read_tool_calls(in);
    if (in.find("function_call")) in.fail("function_call", "cannot be sent to this target; use tool_calls");
  } else if (role == "tool") {
    side_ = "user";
    read_tool_result(in);
  } else {
    in.fail("role", "must be one of system, developer, user, assistant, tool");
  }
}

messages_turns turn_writer::finish() {
  if (!open_side_.empty()) turns_.close(']').close('}');
  return std::move(out_);
}

}  // namespace

messages_turns write_turns(field_reader& in) {
  turn_writer writer;
  const auto messages = in.array("messages");
  if (in.ok() && !messages) in.fail("messages", "is required: an array of at least one message");
  if (!in.ok()) return {};
  std::size_t index = 0;
  for (const auto entry : *messages) {
    object message;
    const std::string path = fmt::format("messages[{}]", index++);
    if (entry.get(message)) {
      in.fail(path, "must be an object");
      return {};
    }
    field_reader inner(message, path);
    writer.read_message(inner);
    in.adopt(inner);
    if (!in.ok()) return {};
  }
  messages_turns out = writer.finish();
  if (out.turns.empty()) in.fail("messages", "must hold a message of a user with something in it");
  return out;
}

}  // namespace weir::gateway::dialects
