#include "gateway/dialects/chat_messages.hpp"

#include <fmt/format.h>

#include <vector>

#include "gateway/dialects/json_writer.hpp"

namespace weir::gateway::dialects {

namespace {

using api::excerpt;
using api::field_reader;
using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

// A first system block of some coding clients, for the API's own accounting. It differs in each request, so
// that no two prompts would have a common prefix.
constexpr std::string_view k_accounting_block = "x-anthropic-billing-header:";

// What a chat message's content is made of: one text as a string, anything else as parts.
class part_list {
 public:
  void add_text(std::string_view text) {
    parts_.open('{').key("type").text("text").key("text").text(text).close('}');
    first_ = text;
    ++texts_;
  }
  void add_image(std::string_view url) {
    parts_.open('{').key("type").text("image_url").key("image_url").open('{');
    parts_.key("url").text(url).close('}').close('}');
    ++images_;
  }
  bool empty() const { return texts_ + images_ == 0; }
  void write(json_writer& w) const {
    if (images_ == 0 && texts_ <= 1) {
      w.text(first_);
    } else {
      w.open('[').raw(json_).close(']');
    }
  }

 private:
  std::string json_;
  json_writer parts_{json_};
  std::string_view first_;
  std::size_t texts_ = 0;
  std::size_t images_ = 0;
};

struct turn {
  field_reader in;
  std::string_view role;
  std::string_view json;
};

class message_writer {
 public:
  void read_system(field_reader& root);
  void read_turn(turn& t);
  std::string take() { return std::move(out_); }

 private:
  void read_user(turn& t, array blocks);
  void read_assistant(turn& t, array blocks);
  void read_tool_result(turn& t, object block, const std::string& path);
  void write_plain(std::string_view role, std::string_view text) {
    w_.open('{').key("role").text(role).key("content").text(text).close('}');
  }

  std::string out_;
  json_writer w_{out_};
};

std::string_view read_text(field_reader& in, object block, const std::string& path) {
  const auto text = string_in(block, "text");
  element citations;
  if (!text) in.fail(path, "of type 'text' needs a string 'text'");
  const bool cites = !block.at_key("citations").get(citations) && !citations.is_null();
  if (cites && !(citations.is_array() && citations.get_array().value_unsafe().size() == 0)) {
    in.fail(path + ".citations", "cannot be served by this model");
  }
  return text.value_or("");
}

void read_image(field_reader& in, object block, const std::string& path, part_list& out) {
  object source;
  if (block.at_key("source").get(source)) return in.fail(path, "of type 'image' needs a 'source'");
  const auto type = string_in(source, "type").value_or("");
  const auto url = string_in(source, "url");
  if (type == "url" && url) return out.add_image(*url);
  const auto media_type = string_in(source, "media_type");
  const auto data = string_in(source, "data");
  if (type != "base64" || !media_type || !data) {
    return in.fail(path + ".source",
                   "must be of type 'base64', with 'media_type' and 'data', or 'url', with 'url'");
  }
  out.add_image(fmt::format("data:{};base64,{}", *media_type, *data));
}

void refuse_block(field_reader& in, std::string_view type, const std::string& path) {
  in.fail(path, type.empty() ? std::string("needs a 'type'")
                             : fmt::format("of type '{}' cannot be served by this model", excerpt(type)));
}

// Text and images.
void read_shown(field_reader& in, object block, const std::string& path, part_list& out) {
  const auto type = string_in(block, "type").value_or("");
  if (type == "text") return out.add_text(read_text(in, block, path));
  if (type == "image") return read_image(in, block, path, out);
  refuse_block(in, type, path);
}

// The i-th of a list under `path`; nothing where it is no object.
std::optional<object> block_at(field_reader& in, element entry, const std::string& path) {
  object block;
  if (!entry.get(block)) return block;
  in.fail(path, "must be an object");
  return std::nullopt;
}

// Text blocks as one text.
std::string read_system_text(field_reader& in, std::string_view key) {
  const auto value = in.find(key);
  std::string_view plain;
  array blocks;
  if (!value) return {};
  if (!value->get(plain)) return std::string(plain);
  if (value->get(blocks)) return in.fail(key, "must be a string or an array of text blocks"), std::string();
  std::string out;
  std::size_t index = 0;
  for (const auto entry : blocks) {
    const std::string path = fmt::format("{}[{}]", key, index++);
    const auto block = block_at(in, entry, path);
    if (!block) return {};
    const auto type = string_in(*block, "type").value_or("");
    if (type != "text") return refuse_block(in, type, path), std::string();
    const std::string_view text = read_text(in, *block, path);
    if (text.starts_with(k_accounting_block)) continue;
    if (!out.empty()) out += "\n\n";
    out += text;
  }
  return out;
}

void message_writer::read_system(field_reader& root) {
  const std::string text = read_system_text(root, "system");
  if (!text.empty()) write_plain("system", text);
}

// A string, blocks or nothing, as a tool result holds it.
void read_result(field_reader& in, element content, const std::string& path, part_list& out) {
  std::string_view plain;
  array blocks;
  if (!content.get(plain)) return out.add_text(plain);
  if (content.get(blocks)) return in.fail(path, "must be a string or an array of blocks");
  std::size_t index = 0;
  for (const auto entry : blocks) {
    const std::string inner = fmt::format("{}[{}]", path, index++);
    const auto block = block_at(in, entry, inner);
    if (block) read_shown(in, *block, inner, out);
    if (!in.ok()) return;
  }
}

void message_writer::read_tool_result(turn& t, object block, const std::string& path) {
  const auto id = string_in(block, "tool_use_id");
  if (!id || id->empty()) return t.in.fail(path, "of type 'tool_result' needs a 'tool_use_id'");
  part_list parts;
  element content;
  if (!block.at_key("content").get(content) && !content.is_null()) {
    read_result(t.in, content, path + ".content", parts);
  }
  w_.open('{').key("role").text("tool").key("tool_call_id").text(*id).key("content");
  parts.write(w_);
  w_.close('}');
}

void message_writer::read_user(turn& t, array blocks) {
  part_list parts;
  bool any_result = false;
  std::size_t index = 0;
  for (const auto entry : blocks) {
    const std::string path = fmt::format("content[{}]", index++);
    const auto block = block_at(t.in, entry, path);
    if (!block) return;
    if (string_in(*block, "type") == "tool_result") {
      any_result = true;
      read_tool_result(t, *block, path);
    } else {
      read_shown(t.in, *block, path, parts);
    }
    if (!t.in.ok()) return;
  }
  if (parts.empty() && any_result) return;
  w_.open('{').key("role").text("user").key("content");
  parts.write(w_);
  w_.close('}');
}

struct assistant_parts {
  std::string content;
  std::string reasoning;
  std::string calls;  // comma between
  json_writer calls_writer{calls};
};

void read_tool_use(field_reader& in, object block, std::string_view json, const std::string& path,
                   assistant_parts& out) {
  const auto id = string_in(block, "id");
  const auto name = string_in(block, "name");
  const std::string_view input = text_of(json, "input");
  if (!id || id->empty() || !name || !input.starts_with('{')) {
    return in.fail(path, "of type 'tool_use' needs 'id', 'name' and an object 'input'");
  }
  object caller;
  const bool called = !block.at_key("caller").get(caller) && string_in(caller, "type") != "direct";
  if (called) return in.fail(path + ".caller", "may only be of type 'direct'");
  if (string_in(block, "toolset_name"))
    return in.fail(path + ".toolset_name", "cannot be served by this model");
  auto& w = out.calls_writer.open('{').key("id").text(*id).key("type").text("function");
  w.key("function").open('{').key("name").text(*name).key("arguments").text(input).close('}').close('}');
}

void read_said(field_reader& in, object block, std::string_view json, const std::string& path,
               assistant_parts& out) {
  const auto type = string_in(block, "type").value_or("");
  if (type == "text") {
    out.content += read_text(in, block, path);
  } else if (type == "thinking") {
    const auto thinking = string_in(block, "thinking");
    if (!thinking) return in.fail(path, "of type 'thinking' needs a string 'thinking'");
    out.reasoning += *thinking;
  } else if (type == "tool_use") {
    read_tool_use(in, block, json, path, out);
  } else if (type != "redacted_thinking") {
    refuse_block(in, type, path);
  }
}

void message_writer::read_assistant(turn& t, array blocks) {
  const auto texts = texts_of(text_of(t.json, "content"));
  assistant_parts parts;
  std::size_t index = 0;
  for (const auto entry : blocks) {
    const std::string path = fmt::format("content[{}]", index);
    const auto block = block_at(t.in, entry, path);
    if (block) read_said(t.in, *block, texts[index++], path, parts);
    if (!t.in.ok()) return;
  }
  w_.open('{').key("role").text("assistant").key("content");
  if (parts.content.empty() && !parts.calls.empty()) {
    w_.raw("null");
  } else {
    w_.text(parts.content);
  }
  if (!parts.reasoning.empty()) w_.key("reasoning").text(parts.reasoning);
  if (!parts.calls.empty()) w_.key("tool_calls").open('[').raw(parts.calls).close(']');
  w_.close('}');
}

void message_writer::read_turn(turn& t) {
  if (t.role == "system") {
    const std::string text = read_system_text(t.in, "content");
    if (!text.empty()) write_plain("system", text);
    return;
  }
  const auto content = t.in.find("content");
  if (t.role != "user" && t.role != "assistant") return t.in.fail("role", "must be user or assistant");
  std::string_view plain;
  array blocks;
  if (!content) return t.in.fail("content", "is required");
  if (!content->get(plain)) return write_plain(t.role, plain);
  if (content->get(blocks)) return t.in.fail("content", "must be a string or an array of blocks");
  if (t.role == "user") return read_user(t, blocks);
  read_assistant(t, blocks);
}

}  // namespace

std::string write_chat_messages(field_reader& in, const source_json& source, bool answers) {
  const auto messages = in.array("messages");
  if (in.ok() && (!messages || messages->begin() == messages->end())) {
    in.fail("messages", "is required: an array of at least one message");
  }
  if (!in.ok()) return {};
  message_writer writer;
  writer.read_system(in);
  const auto texts = texts_of(text_of(source.text(), "messages"));
  std::size_t index = 0;
  std::string_view role;
  for (const auto entry : *messages) {
    const std::string path = fmt::format("messages[{}]", index);
    const auto message = block_at(in, entry, path);
    if (!message) return {};
    role = string_in(*message, "role").value_or("");
    turn t{field_reader(*message, path), role, texts[index++]};
    writer.read_turn(t);
    in.adopt(t.in);
    if (!in.ok()) return {};
  }
  if (answers && role == "assistant") {
    in.fail(fmt::format("messages[{}]", index - 1), "is the assistant's; this model cannot go on with it");
  }
  return writer.take();
}

}  // namespace weir::gateway::dialects
