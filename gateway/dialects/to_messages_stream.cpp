#include "gateway/dialects/to_messages_stream.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/dialects/event_fields.hpp"

namespace weir::gateway::dialects {

namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::size_t k_tool_calls_max = 1024;  // of one answer
constexpr std::size_t k_blocks_waiting_max = 4096;
constexpr std::size_t k_waiting_bytes_max = 4 << 20;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool is_blank(std::string_view text) {
  return std::all_of(text.begin(), text.end(), is_space);
}

// Behind `event: type` and the begin of its data.
json_writer begin_event(std::string_view type, std::string& out) {
  out += "event: ";
  out += type;
  out += "\ndata: ";
  json_writer w(out);
  w.open('{').key("type").text(type);
  return w;
}

void end_event(json_writer& w, std::string& out) {
  w.close('}');
  out += "\n\n";
}

}  // namespace

void messages_stream::block::follow(std::string_view arguments) {
  for (const char c : arguments) {
    if (escaped) {
      escaped = false;
    } else if (in_string) {
      escaped = c == '\\';
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && depth > 0) {
      whole = --depth == 0;
    }
  }
}

void messages_stream::push(std::string_view event, std::string& out) {
  if (ended_) return;
  const auto fields = read_fields(event);
  if (!fields.has_data) {
    if (!started_) return;
    json_writer w = begin_event("ping", out);
    return end_event(w, out);
  }
  if (std::string_view(fields.data).substr(0, fields.data.find_last_not_of(' ') + 1) == "[DONE]") {
    return complete(out);
  }
  const auto data = source_json::parse(fields.data);
  if (!data) return break_off("sent an event that is not one JSON object", out);
  read(data->root(), fields.data, out);
}

void messages_stream::end(std::string& out) {
  if (ended_) return;
  if (finish_reason_) return complete(out);
  break_off("ended its answer early", out);
}

void messages_stream::fail(const error& e, std::string& out) {
  if (ended_) return;
  ended_ = true;
  out += messages_error_event(to_messages_error(e, options_.request_id));
}

void messages_stream::break_off(std::string_view what, std::string& out) {
  fail(error{errc::stream_interrupted, fmt::format("the target {}", what), {}}, out);
}

void messages_stream::read(object root, const std::string& data, std::string& out) {
  object failure;
  if (!root.at_key("error").get(failure)) {
    ended_ = true;
    const auto status = count_in(failure, "status", count_in(failure, "code", 502));
    const bool known = status >= 400 && status <= 599;
    out += messages_error_event(
        to_messages_error(known ? static_cast<int>(status) : 502, data, options_.request_id));
    return;
  }
  start_once(out);
  object counts;
  if (!root.at_key("usage").get(counts)) usage_ = read_chat_usage(counts);
  array choices;
  if (root.at_key("choices").get(choices)) return;
  for (const auto entry : choices) {
    object choice;
    if (entry.get(choice) || count_in(choice, "index", 0) != 0) continue;
    if (!choice.at_key("usage").get(counts)) usage_ = read_chat_usage(counts);
    read_choice(choice, out);
    if (ended_) return;
  }
}

void messages_stream::read_choice(object choice, std::string& out) {
  object delta;
  if (!choice.at_key("delta").get(delta)) read_delta(delta, out);
  if (const auto reason = string_in(choice, "finish_reason")) finish_reason_ = *reason;
  if (const auto text = string_in(choice, "stop_reason")) stop_sequence_ = *text;
}

void messages_stream::read_delta(object delta, std::string& out) {
  auto reasoning = string_in(delta, "reasoning").value_or("");
  if (reasoning.empty()) reasoning = string_in(delta, "reasoning_content").value_or("");
  add_text(block_kind::thinking, reasoning, out);
  add_text(block_kind::text, string_in(delta, "content").value_or(""), out);
  const auto refusal = string_in(delta, "refusal").value_or("");
  refused_ = refused_ || !refusal.empty();
  add_text(block_kind::text, refusal, out);
  array calls;
  if (delta.at_key("tool_calls").get(calls)) return;
  for (const auto entry : calls) {
    object call;
    if (!entry.get(call) && !ended_) read_call(call, out);
  }
}

// Without an index it is the call of that id, or goes on with the last one. A new id is a new call, whatever
// its index.
std::size_t messages_stream::place_of(std::optional<std::int64_t> index, std::string_view id) {
  for (std::size_t i = calls_.size(); i > 0; --i) {
    const auto& known = calls_[i - 1];
    if (index && known.index != *index) continue;
    if (id.empty() || known.id == id) return i - 1;
    if (index) break;
  }
  const auto next = static_cast<std::int64_t>(calls_.size());
  calls_.push_back({index.value_or(next), id.empty() ? fmt::format("call_{}", next) : std::string(id)});
  return calls_.size() - 1;
}

void messages_stream::read_call(object call, std::string& out) {
  const std::int64_t index = count_in(call, "index", -1);
  const auto id = string_in(call, "id").value_or("");
  object function;
  std::string_view name;
  std::string_view arguments;
  if (!call.at_key("function").get(function)) {
    name = string_in(function, "name").value_or("");
    arguments = string_in(function, "arguments").value_or("");
  }
  const auto place = place_of(index < 0 ? std::nullopt : std::optional(index), id);
  if (calls_.size() > k_tool_calls_max) return break_off("called too many tools", out);
  add_call(place, name, arguments, out);
}

void messages_stream::add_call(std::size_t place, std::string_view name, std::string_view arguments,
                               std::string& out) {
  auto at = std::find_if(blocks_.begin(), blocks_.end(),
                         [&](const block& b) { return b.kind == block_kind::tool && b.call == place; });
  if (place == tools_begun_) {
    ++tools_begun_;
    blocks_.push_back({.kind = block_kind::tool, .call = place});
    at = blocks_.end() - 1;
  }
  if (at == blocks_.end() || at->whole) {
    if (!is_blank(arguments)) break_off("went on with the arguments of a tool call that were whole", out);
    return;
  }
  if (at->name.empty()) at->name = name;
  at->follow(arguments);
  add(*at, arguments, out);
}

void messages_stream::add_text(block_kind kind, std::string_view text, std::string& out) {
  if (text.empty() || ended_) return;
  if (blocks_.empty() || blocks_.back().kind != kind) blocks_.push_back({.kind = kind});
  add(blocks_.back(), text, out);
}

void messages_stream::add(block& to, std::string_view text, std::string& out) {
  if (&to == &blocks_.front() && open_) {
    write_delta(text, out);
  } else {
    to.waiting += text;
    waiting_bytes_ += text.size();
  }
  advance(false, out);
  if (waiting_bytes_ > k_waiting_bytes_max || blocks_.size() > k_blocks_waiting_max) {
    break_off("sent too much beside an unfinished tool call", out);
  }
}

void messages_stream::start_once(std::string& out) {
  if (started_) return;
  started_ = true;
  usage_.fresh = options_.input_tokens;
  json_writer w = begin_event("message_start", out);
  w.key("message").open('{').key("id").text(options_.identity.id).key("type").text("message");
  w.key("role").text("assistant").key("model").text(options_.identity.model).key("content").open('[');
  w.close(']').key("stop_reason").raw("null").key("stop_sequence").raw("null").key("usage");
  write_messages_usage(w, usage_);
  w.close('}');
  end_event(w, out);
}

// Closes the front while others wait for it and it can be whole, or at the end.
void messages_stream::advance(bool to_end, std::string& out) {
  while (!blocks_.empty()) {
    auto& front = blocks_.front();
    const bool named = front.kind != block_kind::tool || !front.name.empty();
    if (!named && to_end) return break_off("called a tool without a name", out);
    if (!named) return;
    if (!open_) open_front(out);
    const bool may_close = to_end || (blocks_.size() > 1 && (front.kind != block_kind::tool || front.whole));
    if (!may_close) return;
    close_front(out);
  }
}

void messages_stream::open_front(std::string& out) {
  auto& front = blocks_.front();
  open_ = true;
  json_writer w = begin_event("content_block_start", out);
  w.key("index").number(index_).key("content_block").open('{');
  switch (front.kind) {
    case block_kind::thinking:
      w.key("type").text("thinking").key("thinking").text("").key("signature").text("");
      break;
    case block_kind::text:
      w.key("type").text("text").key("text").text("");
      break;
    case block_kind::tool:
      w.key("type").text("tool_use").key("id").text(calls_[front.call].id).key("name").text(front.name);
      w.key("input").open('{').close('}');
      break;
  }
  w.close('}');
  end_event(w, out);
  write_delta(front.waiting, out);
  waiting_bytes_ -= front.waiting.size();
  std::string().swap(front.waiting);
}

void messages_stream::write_delta(std::string_view text, std::string& out) {
  if (text.empty()) return;
  json_writer w = begin_event("content_block_delta", out);
  w.key("index").number(index_).key("delta").open('{').key("type");
  switch (blocks_.front().kind) {
    case block_kind::thinking:
      w.text("thinking_delta").key("thinking");
      break;
    case block_kind::text:
      w.text("text_delta").key("text");
      break;
    case block_kind::tool:
      w.text("input_json_delta").key("partial_json");
      break;
  }
  w.text(text).close('}');
  end_event(w, out);
}

void messages_stream::close_front(std::string& out) {
  json_writer w = begin_event("content_block_stop", out);
  w.key("index").number(index_++);
  end_event(w, out);
  blocks_.pop_front();
  open_ = false;
}

void messages_stream::complete(std::string& out) {
  start_once(out);
  advance(true, out);
  if (ended_) return;
  ended_ = true;
  const auto reason = to_stop_reason(finish_reason_.value_or(""), !calls_.empty(), refused_);
  const bool stopped = reason == "end_turn" && stop_sequence_;
  json_writer w = begin_event("message_delta", out);
  w.key("delta").open('{').key("stop_reason").text(stopped ? "stop_sequence" : reason).key("stop_sequence");
  if (stopped) {
    w.text(*stop_sequence_);
  } else {
    w.raw("null");
  }
  w.close('}').key("usage");
  write_messages_usage(w, usage_);
  end_event(w, out);
  json_writer stop = begin_event("message_stop", out);
  end_event(stop, out);
}

}  // namespace weir::gateway::dialects
