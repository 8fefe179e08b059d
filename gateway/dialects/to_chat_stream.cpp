#include "gateway/dialects/to_chat_stream.hpp"

#include <algorithm>

#include "gateway/dialects/event_fields.hpp"
#include "gateway/dialects/to_chat_reply.hpp"

namespace weir::gateway::dialects {

namespace {

using simdjson::dom::object;

constexpr std::size_t k_tool_calls_max = 1024;  // of one answer

target_error unreadable(std::string_view what) {
  return {target_fault::broken, 502, "the target sent an event that " + std::string(what)};
}

}  // namespace

void chat_stream::push(std::string_view event, std::string& out) {
  if (ended_) return;
  const auto fields = read_fields(event);
  if (!fields.has_data) return;
  if (fields.name == "ping") {
    out += ": ping\n\n";
    return;
  }
  if (fields.name == "error") return fail_with(read_messages_error(0, fields.data), out);
  const auto data = source_json::parse(fields.data);
  if (!data) return fail_with(unreadable("is not one JSON object"), out);
  read(*data, out);
}

void chat_stream::read(const source_json& data, std::string& out) {
  const object root = data.root();
  const auto type = string_in(root, "type").value_or("");
  if (type == "content_block_delta") {
    read_delta(root, out);
  } else if (type == "content_block_start") {
    start_block(data, out);
  } else if (type == "content_block_stop") {
    stop_block(root, out);
  } else if (type == "message_start") {
    start(root, out);
  } else if (type == "message_delta") {
    read_message_delta(root, out);
  } else if (type == "message_stop") {
    stop(out);
  } else if (type == "error") {
    fail_with(read_messages_error(0, std::string(data.text())), out);
  } else if (type == "ping") {
    out += ": ping\n\n";
  }
}

void chat_stream::start(object root, std::string& out) {
  object message;
  object counts;
  if (root.at_key("message").get(message)) return fail_with(unreadable("starts no message"), out);
  if (!message.at_key("usage").get(counts)) read_messages_usage(counts, usage_);
  start_once(string_in(message, "id").value_or(""), out);
}

void chat_stream::start_once(std::string_view id, std::string& out) {
  if (started_) return;
  started_ = true;
  head_ = "data: ";
  json_writer head(head_);
  head.open('{').key("id").text(options_.identity.id.empty() ? id : std::string_view(options_.identity.id));
  head.key("object").text("chat.completion.chunk").key("created").number(options_.identity.created_s);
  head.key("model").text(options_.identity.model).key("choices");
  json_writer w = begin_chunk(out);
  w.key("role").text("assistant").key("content").text("").key("refusal").raw("null");
  end_chunk(out, w, {});
}

json_writer chat_stream::begin_chunk(std::string& out) const {
  out += head_;
  out += R"([{"index":0,"delta":{)";
  return json_writer(out);
}

void chat_stream::end_chunk(std::string& out, json_writer& w, std::string_view finish_reason) const {
  w.close('}').key("logprobs").raw("null").key("finish_reason");
  if (finish_reason.empty()) {
    w.raw("null");
  } else {
    w.text(finish_reason);
  }
  w.close('}').close(']');
  if (options_.include_usage) w.key("usage").raw("null");
  out += "}\n\n";
}

void chat_stream::write_text(std::string_view key, std::string_view key_too, std::string_view text,
                             std::string& out) {
  if (text.empty()) return;
  json_writer w = begin_chunk(out);
  w.key(key).text(text);
  if (!key_too.empty()) w.key(key_too).text(text);
  end_chunk(out, w, {});
}

void chat_stream::write_arguments(std::size_t index, std::string_view text, std::string& out) {
  if (text.empty()) return;
  tools_[index].has_arguments = true;
  json_writer w = begin_chunk(out);
  w.key("tool_calls").open('[').open('{').key("index").number(static_cast<std::int64_t>(index));
  w.key("function").open('{').key("arguments").text(text).close('}').close('}').close(']');
  end_chunk(out, w, {});
}

void chat_stream::start_block(const source_json& data, std::string& out) {
  object block;
  if (data.root().at_key("content_block").get(block)) return fail_with(unreadable("starts no block"), out);
  start_once({}, out);
  const auto type = string_in(block, "type");
  if (type == "text") write_text("content", {}, string_in(block, "text").value_or(""), out);
  if (type == "thinking") {
    write_text("reasoning_content", "reasoning", string_in(block, "thinking").value_or(""), out);
  }
  if (type == "tool_use") start_tool(data, block, out);
}

void chat_stream::start_tool(const source_json& data, object block, std::string& out) {
  const auto id = string_in(block, "id");
  const auto name = string_in(block, "name");
  if (!id || !name) return fail_with(unreadable("starts a tool use without id or name"), out);
  if (tools_.size() == k_tool_calls_max) return fail_with(unreadable("starts too many tool uses"), out);
  const std::string_view input = text_of(text_of(data.text(), "content_block"), "input");
  tools_.push_back({.block = count_in(data.root(), "index", -1),
                    .input = std::string(input.starts_with('{') ? input : "{}"),
                    .has_arguments = false,
                    .open = true});
  json_writer w = begin_chunk(out);
  w.key("tool_calls").open('[').open('{').key("index").number(static_cast<std::int64_t>(tools_.size()) - 1);
  w.key("id").text(*id).key("type").text("function").key("function").open('{');
  w.key("name").text(*name).key("arguments").text("").close('}').close('}').close(']');
  end_chunk(out, w, {});
}

void chat_stream::read_delta(object root, std::string& out) {
  object delta;
  if (root.at_key("delta").get(delta)) return fail_with(unreadable("has no delta"), out);
  start_once({}, out);
  const auto type = string_in(delta, "type");
  if (type == "text_delta") {
    write_text("content", {}, string_in(delta, "text").value_or(""), out);
  } else if (type == "thinking_delta") {
    write_text("reasoning_content", "reasoning", string_in(delta, "thinking").value_or(""), out);
  } else if (type == "input_json_delta") {
    const std::int64_t block = count_in(root, "index", -1);
    for (std::size_t i = tools_.size(); i > 0; --i) {
      if (tools_[i - 1].block != block || !tools_[i - 1].open) continue;
      return write_arguments(i - 1, string_in(delta, "partial_json").value_or(""), out);
    }
  }
}

// What a client parses must be an object even where the tool takes nothing.
void chat_stream::complete_tool(std::size_t index, std::string& out) {
  auto& tool = tools_[index];
  if (!tool.open) return;
  tool.open = false;
  if (!tool.has_arguments) write_arguments(index, tool.input, out);
}

void chat_stream::stop_block(object root, std::string& out) {
  const std::int64_t block = count_in(root, "index", -1);
  for (std::size_t i = tools_.size(); i > 0; --i) {
    if (tools_[i - 1].block == block) return complete_tool(i - 1, out);
  }
}

void chat_stream::read_message_delta(object root, std::string& out) {
  start_once({}, out);
  object counts;
  if (!root.at_key("usage").get(counts)) read_messages_usage(counts, usage_);
  object delta;
  if (finished_ || root.at_key("delta").get(delta)) return;
  const auto reason = string_in(delta, "stop_reason");
  if (!reason) return;
  finished_ = true;
  for (std::size_t i = 0; i < tools_.size(); ++i) complete_tool(i, out);
  json_writer w = begin_chunk(out);
  end_chunk(out, w, to_finish_reason(*reason));
}

void chat_stream::stop(std::string& out) {
  if (!finished_) return fail_with(unreadable("ends a message without a stop_reason"), out);
  ended_ = true;
  if (options_.include_usage) {
    out += head_;
    json_writer w(out);
    w.open('[').close(']').key("usage");
    write_chat_usage(w, usage_);
    out += "}\n\n";
  }
  out += "data: [DONE]\n\n";
}

void chat_stream::fail_with(target_error e, std::string& out) {
  ended_ = true;
  out += chat_error_event(e);
  failure_ = std::move(e);
}

}  // namespace weir::gateway::dialects
