#include "loadtest/mock/answer_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

namespace weir::loadtest::mock {

namespace {

constexpr std::string_view k_chat_event_end =
    R"("},"logprobs":null,"finish_reason":null,"token_ids":null}]})";
constexpr std::string_view k_text_event_end =
    R"(","logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":null})";

void append_chunk_size(std::string& out, std::size_t size) {
  char digits[2 * sizeof size];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), size, 16).ptr;
  out.append(digits, end);
  out += "\r\n";
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

}  // namespace

void append_json_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
}

void append_chunk(std::string& out, std::string_view payload) {
  append_chunk_size(out, payload.size());
  out += payload;
  out += "\r\n";
}

void append_response(std::string& out, int status, std::string_view type, std::string_view body,
                     std::string_view extra_fields) {
  fmt::format_to(
      std::back_inserter(out),
      "HTTP/1.1 {} {}\r\nserver: weir-loadtest-mock\r\ncontent-length: {}\r\ncontent-type: {}\r\n{}\r\n",
      status, reason_phrase(status), body.size(), type, extra_fields);
  out += body;
}

std::string error_body(int status, std::string_view type, std::string_view message, std::string_view param) {
  std::string out = R"({"error":{"message":")";
  append_json_escaped(out, message);
  out += R"(","type":")";
  out += type;
  out += R"(","param":)";
  out += param.empty() ? "null" : fmt::format("\"{}\"", param);
  out += fmt::format(R"(,"code":{}}}}})", status);
  return out;
}

answer_writer::answer_writer(completion_ask ask, const mock_options& options, std::uint64_t number,
                             std::int64_t created_s)
    : ask_(std::move(ask)),
      token_bytes_(options.token_bytes),
      reply_bytes_(options.reply_bytes),
      echo_(options.echo),
      event_end_(ask_.chat ? k_chat_event_end : k_text_event_end) {
  if (echo_) token_bytes_ = std::max(token_bytes_, k_echo_token_bytes_min);
  const auto whole = echo_ ? (static_cast<std::int64_t>(ask_.text.size()) + token_bytes_ - 1) / token_bytes_
                           : options.tokens;
  token_count_ = ask_.max_tokens ? (echo_ ? std::min(whole, *ask_.max_tokens) : *ask_.max_tokens) : whole;
  cut_by_length_ = ask_.max_tokens && (!echo_ || *ask_.max_tokens < whole);
  cached_tokens_ = static_cast<std::int64_t>(options.cached_share * static_cast<double>(ask_.prompt_tokens));
  const char* object = !ask_.chat    ? "text_completion"
                       : ask_.stream ? "chat.completion.chunk"
                                     : "chat.completion";
  intro_ = fmt::format(R"({{"id":"{}-{:032x}","object":"{}","created":{},"model":")",
                       ask_.chat ? "chatcmpl" : "cmpl", number, object, created_s);
  append_json_escaped(intro_, ask_.model);
  intro_ += R"(","choices":[)";
  event_start_ = "data: " + intro_;
  event_start_ += ask_.chat ? R"({"index":0,"delta":{"content":")" : R"({"index":0,"text":")";
}

// The first character border at or behind the token's nominal place.
std::size_t answer_writer::echo_offset(std::int64_t index) const {
  const auto is_inner = [](char c) { return (c & 0xC0) == 0x80; };
  auto at = std::min(static_cast<std::size_t>(index * token_bytes_), ask_.text.size());
  while (at < ask_.text.size() && is_inner(ask_.text[at])) ++at;
  return at;
}

void answer_writer::append_token_text(std::int64_t index, std::string& out) const {
  if (echo_) {
    const auto start = echo_offset(index);
    append_json_escaped(out, std::string_view(ask_.text).substr(start, echo_offset(index + 1) - start));
    return;
  }
  const auto before = out.size();
  out += " tok";
  char digits[24];
  out.append(digits, std::to_chars(std::begin(digits), std::end(digits), index).ptr);
  const auto written = static_cast<std::int64_t>(out.size() - before);
  if (written < token_bytes_) out.append(static_cast<std::size_t>(token_bytes_ - written), '.');
}

void answer_writer::head(std::string_view extra_fields, std::string& out) const {
  out +=
      "HTTP/1.1 200 OK\r\nserver: weir-loadtest-mock\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
      "transfer-encoding: chunked\r\n";
  out += extra_fields;
  out += "\r\n";
}

void answer_writer::event(std::string_view text, std::string& out) const {
  append_chunk_size(out, event_start_.size() + text.size() + event_end_.size() + 2);
  out += event_start_;
  out += text;
  out += event_end_;
  out += "\n\n\r\n";
}

void answer_writer::role(std::string& out) const {
  if (!ask_.chat) return;
  append_chunk(out, fmt::format("data: {}{}\n\n", intro_,
                                R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,)"
                                R"("finish_reason":null}],"prompt_token_ids":null})"));
}

void answer_writer::token(std::int64_t index, std::string& out) const {
  std::string text;
  append_token_text(index, text);
  event(text, out);
}

void answer_writer::finish(std::string& out) const {
  const std::string_view start = ask_.chat ? R"({"index":0,"delta":{"content":""},"logprobs":null,)"
                                           : R"({"index":0,"text":"","logprobs":null,)";
  const std::string_view end =
      ask_.chat ? R"("stop_reason":null,"token_ids":null}]})" : R"("stop_reason":null}],"usage":null})";
  append_chunk(out,
               fmt::format("data: {}{}\"finish_reason\":\"{}\",{}\n\n", intro_, start, finish_reason(), end));
}

std::string answer_writer::usage_json() const {
  return fmt::format(R"({{"prompt_tokens":{},"total_tokens":{},"completion_tokens":{},)"
                     R"("prompt_tokens_details":{{"cached_tokens":{}}}}})",
                     ask_.prompt_tokens, ask_.prompt_tokens + token_count_, token_count_, cached_tokens_);
}

void answer_writer::usage(std::string& out) const {
  if (ask_.include_usage)
    append_chunk(out, fmt::format("data: {}],\"usage\":{}}}\n\n", intro_, usage_json()));
}

void answer_writer::done(std::string& out) const {
  append_chunk(out, "data: [DONE]\n\n");
}

void answer_writer::end(std::string& out) const {
  out += "0\r\n\r\n";
}

void answer_writer::error_event(std::string& out) const {
  append_chunk(out, "data: " + error_body(500, "InternalServerError", "mock fault: error event") + "\n\n");
}

void answer_writer::garbage_event(std::string& out) const {
  append_chunk(out, "data: {\"id\": \"chatcmpl-\xff\xfe\", \"choices\": [{\"delta\n\n");
}

void answer_writer::half_event(std::string& out) const {
  append_chunk(out, event_start_.substr(0, event_start_.size() / 2));
}

std::string answer_writer::whole() const {
  std::string out = intro_;
  out += ask_.chat ? R"({"index":0,"message":{"role":"assistant","content":")" : R"({"index":0,"text":")";
  const auto start = out.size();
  for (std::int64_t i = 0; i < token_count_; ++i) append_token_text(i, out);
  const auto written = static_cast<std::int64_t>(out.size() - start);
  if (written < reply_bytes_) out.append(static_cast<std::size_t>(reply_bytes_ - written), '.');
  if (ask_.chat) out += R"(","refusal":null,"tool_calls":[],"reasoning_content":null})";
  if (!ask_.chat) out += '"';
  out += fmt::format(R"(,"logprobs":null,"finish_reason":"{}","stop_reason":null}}],"usage":{})",
                     finish_reason(), usage_json());
  out += R"(,"prompt_logprobs":null,"kv_transfer_params":null})";
  return out;
}

}  // namespace weir::loadtest::mock
