#include "gateway/upstream/dialect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "gateway/dialects/chat_fixes.hpp"
#include "gateway/dialects/error_shapes.hpp"
#include "gateway/dialects/event_fields.hpp"
#include "gateway/dialects/reply_fixes.hpp"
#include "gateway/dialects/source_json.hpp"
#include "gateway/dialects/to_chat_reply.hpp"
#include "gateway/dialects/to_chat_stream.hpp"
#include "gateway/dialects/to_messages_request.hpp"

namespace weir::gateway::upstream {

namespace {

using policy::endpoint;

constexpr std::size_t k_kept_bytes_max = 16 << 10;  // of an empty buffer

constexpr std::pair<std::string_view, endpoint> k_endpoints[] = {
    {"chat", endpoint::chat},
    {"completions", endpoint::completions},
    {"embeddings", endpoint::embeddings},
    {"responses", endpoint::responses},
    {"messages", endpoint::messages},
    {"count_tokens", endpoint::count_tokens},
};

// A request that was read before has no fault of its own left: what remains is what this target cannot do.
error as_unsupported(error e) {
  e.code = errc::unsupported;
  return e;
}

std::int64_t seconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

class from_messages final : public reply_translator {
 public:
  explicit from_messages(std::string_view model)
      : identity_{.id = {}, .model = std::string(model), .created_s = seconds_now()},
        stream_({.identity = identity_, .include_usage = true}) {}

  result<std::string> whole(std::string body) override {
    auto said = dialects::to_chat_reply(body, identity_);
    if (!said) return std::unexpected(std::move(said.error()));
    return std::move(said->body);
  }
  void push(std::string_view event, std::string& out) override { stream_.push(event, out); }
  void end(std::string&) override {}
  std::optional<said_error> failure(int status, const std::string& body) override {
    const auto read = dialects::read_messages_error(status, body);
    return said_error{read.status, dialects::chat_error_json(read)};
  }

 private:
  api::answer_identity identity_;
  dialects::chat_stream stream_;
};

class as_messages final : public reply_translator {
 public:
  result<std::string> whole(std::string body) override { return body; }
  void push(std::string_view event, std::string& out) override { out += event; }
  void end(std::string&) override {}
  std::optional<said_error> failure(int status, const std::string& body) override {
    const auto read = dialects::read_messages_error(status, body);
    return said_error{read.status, dialects::chat_error_json(read)};
  }
};

class from_kin final : public reply_translator {
 public:
  explicit from_kin(bool moonshot) : moonshot_(moonshot) {}

  result<std::string> whole(std::string body) override {
    auto fixed = dialects::fix_chat_reply(body);
    return fixed ? std::move(*fixed) : std::move(body);
  }
  void push(std::string_view event, std::string& out) override { stream_.push(event, out); }
  void end(std::string& out) override { stream_.end(out); }
  std::optional<said_error> failure(int status, const std::string& body) override {
    if (!moonshot_) return std::nullopt;
    const auto read = dialects::read_moonshot_error(status, body);
    return said_error{read.status, dialects::chat_error_json(read)};
  }

 private:
  bool moonshot_;
  dialects::fixed_stream stream_;
};

}  // namespace

dialect to_dialect(std::string_view configured) {
  if (configured == "vllm") return dialect::vllm;
  if (configured == "moonshot") return dialect::moonshot;
  return configured == "anthropic" ? dialect::anthropic : dialect::openai;
}

policy::endpoint_set endpoints_of(const config::http_target_config& target) {
  policy::endpoint_set out = 0;
  for (const auto& [name, one] : k_endpoints) {
    const auto& list = target.endpoints;
    if (std::find(list.begin(), list.end(), name) != list.end()) out |= policy::set_of(one);
  }
  if (!target.endpoints.empty()) return out;
  out = policy::set_of(endpoint::chat);
  const auto of = to_dialect(target.dialect);
  if (of == dialect::anthropic) {
    out |= policy::set_of(endpoint::messages);
    out |= policy::set_of(endpoint::count_tokens);
  }
  if (of == dialect::openai || of == dialect::vllm) {
    out |= policy::set_of(endpoint::completions);
    out |= policy::set_of(endpoint::embeddings);
  }
  return out;
}

std::string_view path_of(dialect of, endpoint asked) noexcept {
  switch (asked) {
    case endpoint::chat:
      return of == dialect::anthropic ? "/messages" : "/chat/completions";
    case endpoint::completions:
      return "/completions";
    case endpoint::embeddings:
      return "/embeddings";
    case endpoint::responses:
      return "/responses";
    case endpoint::messages:
      return "/messages";
    case endpoint::count_tokens:
      return "/messages/count_tokens";
  }
  return "/chat/completions";
}

std::string_view version_lines(dialect of, const api::generation_call& call) noexcept {
  if (said_as_asked(of, call) != nullptr && !call.version_lines.empty()) return call.version_lines;
  return of == dialect::anthropic ? "anthropic-version: 2023-06-01\r\n" : "";
}

std::string credential_lines(dialect of, std::string_view key) {
  if (of == dialect::anthropic) {
    return fmt::format("x-api-key: {}\r\n", key);
  }
  return fmt::format("authorization: Bearer {}\r\n", key);
}

const std::string* said_as_asked(dialect of, const api::generation_call& call) noexcept {
  if (call.facts.asks == endpoint::messages || call.facts.asks == endpoint::count_tokens) return &call.body;
  return of == dialect::anthropic && !call.messages.empty() ? &call.messages : nullptr;
}

result<std::optional<std::string>> say_request(const config::http_target_config& target, endpoint asked,
                                               const std::string& body, const wanted_request& wanted) {
  const auto of = to_dialect(target.dialect);
  if (of == dialect::openai || asked != endpoint::chat) return std::nullopt;
  if (of != dialect::anthropic) {
    auto fixed = dialects::fix_chat_request(
        body, of == dialect::vllm ? dialects::k_vllm_fixes : dialects::k_moonshot_fixes);
    if (!fixed) return std::unexpected(as_unsupported(std::move(fixed.error())));
    return fixed;
  }
  const dialects::messages_target there{
      .model = wanted.model,
      .max_tokens_default = wanted.output_tokens_max > 0 ? wanted.output_tokens_max : target.max_tokens,
      .thinking =
          target.thinking == "budget" ? dialects::thinking_form::budget : dialects::thinking_form::adaptive,
      .sampling = target.sampling};
  auto said = dialects::to_messages_request(body, there);
  if (!said) return std::unexpected(as_unsupported(std::move(said.error())));
  return std::optional(std::move(*said));
}

std::unique_ptr<reply_translator> make_translator(dialect of, endpoint asked, std::string_view model) {
  if (of == dialect::openai || asked != endpoint::chat) return nullptr;
  if (of == dialect::anthropic) return std::make_unique<from_messages>(model);
  return std::make_unique<from_kin>(of == dialect::moonshot);
}

std::unique_ptr<reply_translator> make_error_translator() {
  return std::make_unique<as_messages>();
}

std::optional<std::string_view> event_translation::push(std::string_view bytes) {
  out_.clear();
  if (out_.capacity() > k_kept_bytes_max) std::string().swap(out_);
  buffer_ += bytes;
  std::size_t at = 0;
  while (true) {
    const auto rest = std::string_view(buffer_).substr(at);
    const auto size = splitter_.next(rest);
    if (size.value_or(rest.size()) > event_bytes_max_) return std::nullopt;
    if (!size) break;
    how_->push(rest.substr(0, *size), out_);
    at += *size;
  }
  buffer_.erase(0, at);
  if (buffer_.empty() && buffer_.capacity() > k_kept_bytes_max) std::string().swap(buffer_);
  return out_;
}

// A last event without its blank line is one all the same, half an event is none.
std::string_view event_translation::end() {
  out_.clear();
  const auto data = dialects::read_fields(buffer_).data;
  if (data.starts_with("[DONE]") || dialects::is_object(data)) how_->push(buffer_ + "\n\n", out_);
  buffer_.clear();
  how_->end(out_);
  return out_;
}

}  // namespace weir::gateway::upstream
