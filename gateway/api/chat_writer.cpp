#include <fmt/format.h>

#include "gateway/api/json.hpp"
#include "gateway/api/logprobs_json.hpp"
#include "gateway/api/response_writer.hpp"

namespace weir::gateway::api {

namespace {

using engine::text::content_delta;
using engine::text::reasoning_delta;
using engine::text::tool_arguments_delta;
using engine::text::tool_call_begin;

// Under both names that clients look for.
void append_reasoning(std::string& out, std::string_view text) {
  out += R"("reasoning_content":)";
  append_quoted(out, text);
  out += R"(,"reasoning":)";
  append_quoted(out, text);
}

class chat_stream_writer final : public response_writer {
 public:
  chat_stream_writer(answer_identity identity, int choice_count, bool with_usage)
      : started_(choice_count, false), with_usage_(with_usage) {
    head_ = R"(data: {"id":)";
    append_quoted(head_, identity.id);
    head_ += fmt::format(R"(,"object":"chat.completion.chunk","created":{},"model":)", identity.created_s);
    append_quoted(head_, identity.model);
    head_ += R"(,"choices":[)";
    tail_ = with_usage ? "],\"usage\":null}\n\n" : "]}\n\n";
  }

  std::string write(const choice_event& event) override {
    std::string out;
    std::string logprobs = logprobs_json(event.tokens);
    if (!started_[event.choice]) {
      started_[event.choice] = true;
      append_chunk(out, event.choice, R"("role":"assistant","content":"","refusal":null)", "null", {});
    }
    for (const auto& delta : event.deltas) {
      append_chunk(out, event.choice, delta_json(delta), logprobs, {});
      logprobs = "null";
    }
    // Tokens whose text is still held back, and the end of the choice, travel on an empty delta.
    if (event.finish || logprobs != "null") append_chunk(out, event.choice, {}, logprobs, event.finish);
    return out;
  }

  std::string finish(const token_usage& usage) override {
    std::string out;
    if (with_usage_) {
      out = head_;
      out += "],";
      out += usage_json(usage);
      out += "}\n\n";
    }
    out += "data: [DONE]\n\n";
    return out;
  }

 private:
  static std::string delta_json(const engine::text::chat_delta& delta) {
    std::string out;
    if (const auto* content = std::get_if<content_delta>(&delta)) {
      out = R"("content":)";
      append_quoted(out, content->text);
    } else if (const auto* reasoning = std::get_if<reasoning_delta>(&delta)) {
      append_reasoning(out, reasoning->text);
    } else if (const auto* call = std::get_if<tool_call_begin>(&delta)) {
      out = fmt::format(R"("tool_calls":[{{"index":{},"id":)", call->index);
      append_quoted(out, call->id);
      out += R"(,"type":"function","function":{"name":)";
      append_quoted(out, call->name);
      out += R"(,"arguments":""}}])";
    } else {
      const auto& arguments = std::get<tool_arguments_delta>(delta);
      out = fmt::format(R"("tool_calls":[{{"index":{},"function":{{"arguments":)", arguments.index);
      append_quoted(out, arguments.text);
      out += "}}]";
    }
    return out;
  }

  void append_chunk(std::string& out, int choice, std::string_view delta, std::string_view logprobs,
                    std::optional<finish_kind> finish) const {
    out += head_;
    out +=
        fmt::format(R"({{"index":{},"delta":{{{}}},"logprobs":{},"finish_reason":)", choice, delta, logprobs);
    if (finish) {
      append_quoted(out, to_text(*finish));
    } else {
      out += "null";
    }
    out += '}';
    out += tail_;
  }

  std::string head_;
  std::string tail_;
  std::vector<bool> started_;
  bool with_usage_;
};

class chat_body_writer final : public response_writer {
 public:
  chat_body_writer(answer_identity identity, int choice_count)
      : identity_(std::move(identity)), choices_(choice_count) {}

  std::string write(const choice_event& event) override {
    auto& choice = choices_[event.choice];
    for (const auto& delta : event.deltas) add(choice, delta);
    choice.tokens.insert(choice.tokens.end(), event.tokens.begin(), event.tokens.end());
    if (event.finish) choice.finish = *event.finish;
    return {};
  }

  std::string finish(const token_usage& usage) override {
    std::string out = R"({"id":)";
    append_quoted(out, identity_.id);
    out += fmt::format(R"(,"object":"chat.completion","created":{},"model":)", identity_.created_s);
    append_quoted(out, identity_.model);
    out += R"(,"choices":[)";
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      if (i > 0) out += ',';
      append_choice(out, i, choices_[i]);
    }
    out += "],";
    out += usage_json(usage);
    out += '}';
    return out;
  }

 private:
  struct choice_state {
    std::string content;
    std::string reasoning;
    std::vector<engine::text::tool_call> calls;
    std::vector<token_detail> tokens;
    finish_kind finish = finish_kind::stop;
  };

  static void add(choice_state& choice, const engine::text::chat_delta& delta) {
    if (const auto* content = std::get_if<content_delta>(&delta)) {
      choice.content += content->text;
    } else if (const auto* reasoning = std::get_if<reasoning_delta>(&delta)) {
      choice.reasoning += reasoning->text;
    } else if (const auto* call = std::get_if<tool_call_begin>(&delta)) {
      choice.calls.push_back({call->id, call->name, {}});
    } else {
      const auto& arguments = std::get<tool_arguments_delta>(delta);
      choice.calls.at(static_cast<std::size_t>(arguments.index)).arguments += arguments.text;
    }
  }

  static void append_choice(std::string& out, std::size_t index, const choice_state& choice) {
    out += fmt::format(R"({{"index":{},"message":{{"role":"assistant","content":)", index);
    if (choice.content.empty() && !choice.calls.empty()) {
      out += "null";
    } else {
      append_quoted(out, choice.content);
    }
    out += R"(,"refusal":null)";
    if (!choice.reasoning.empty()) {
      out += ',';
      append_reasoning(out, choice.reasoning);
    }
    if (!choice.calls.empty()) {
      out += R"(,"tool_calls":[)";
      for (std::size_t i = 0; i < choice.calls.size(); ++i) {
        const auto& call = choice.calls[i];
        out += i > 0 ? R"(,{"id":)" : R"({"id":)";
        append_quoted(out, call.id);
        out += R"(,"type":"function","function":{"name":)";
        append_quoted(out, call.name);
        out += R"(,"arguments":)";
        append_quoted(out, call.arguments);
        out += "}}";
      }
      out += ']';
    }
    out += fmt::format(R"(}},"logprobs":{},"finish_reason":"{}"}})", logprobs_json(choice.tokens),
                       to_text(choice.finish));
  }

  answer_identity identity_;
  std::vector<choice_state> choices_;
};

}  // namespace

std::unique_ptr<response_writer> make_chat_writer(answer_identity identity, int choice_count,
                                                  writer_mode mode) {
  if (mode == writer_mode::body) return std::make_unique<chat_body_writer>(std::move(identity), choice_count);
  return std::make_unique<chat_stream_writer>(std::move(identity), choice_count,
                                              mode == writer_mode::stream_with_usage);
}

std::string usage_json(const token_usage& usage) {
  const std::string cached =
      usage.cached_tokens < 0
          ? std::string()
          : fmt::format(R"(,"prompt_tokens_details":{{"cached_tokens":{}}})", usage.cached_tokens);
  return fmt::format(R"("usage":{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{}{}}})",
                     usage.prompt_tokens, usage.completion_tokens,
                     usage.prompt_tokens + usage.completion_tokens, cached);
}

}  // namespace weir::gateway::api
