#include "gateway/api/responses_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "gateway/api/json.hpp"
#include "gateway/api/logprobs_json.hpp"

namespace weir::gateway::api {

namespace {

using engine::text::content_delta;
using engine::text::tool_arguments_delta;
using engine::text::tool_call_begin;

std::string in_quotes(std::string_view text) {
  std::string out;
  append_quoted(out, text);
  return out;
}

// The list inside of {"content":[...],"refusal":null}.
std::string logprob_list(const std::vector<token_detail>& tokens) {
  constexpr std::string_view k_head = R"({"content":)", k_tail = R"(,"refusal":null})";
  const std::string all = logprobs_json(tokens);
  if (tokens.empty()) return "[]";
  return all.substr(k_head.size(), all.size() - k_head.size() - k_tail.size());
}

struct output_item {
  std::string id;
  bool is_call = false;
  std::string text;  // of a message; arguments of a call
  std::string call_id;
  std::string name;
  std::vector<token_detail> tokens;

  std::string part_json() const {
    return fmt::format(R"({{"type":"output_text","annotations":[],"logprobs":{},"text":{}}})",
                       logprob_list(tokens), in_quotes(text));
  }
  std::string json(std::string_view status) const {
    if (is_call) {
      return fmt::format(
          R"({{"id":"{}","type":"function_call","status":"{}","arguments":{},"call_id":{},"name":{}}})", id,
          status, in_quotes(text), in_quotes(call_id), in_quotes(name));
    }
    const std::string parts = status == "in_progress" ? "" : part_json();
    return fmt::format(R"({{"id":"{}","type":"message","status":"{}","content":[{}],"role":"assistant"}})",
                       id, status, parts);
  }
};

class responses_writer final : public response_writer {
 public:
  responses_writer(answer_identity identity, std::string echo, bool stream)
      : identity_(std::move(identity)), echo_(std::move(echo)), stream_(stream) {}

  std::string write(const choice_event& event) override {
    if (!begun_) {
      begun_ = true;
      send("response.created", R"("response":)" + response_json("in_progress", nullptr));
      send("response.in_progress", R"("response":)" + response_json("in_progress", nullptr));
    }
    std::vector<token_detail> tokens = event.tokens;
    for (const auto& delta : event.deltas) take(delta, tokens);
    // Tokens whose text is still held back belong to the text that is open.
    if (open_ && !items_.back().is_call) {
      auto& kept = items_.back().tokens;
      kept.insert(kept.end(), tokens.begin(), tokens.end());
    }
    if (event.finish) {
      cut_ = *event.finish == finish_kind::length;
      close_item();
    }
    return std::exchange(out_, {});
  }

  std::string finish(const token_usage& usage) override {
    const std::string whole = response_json(cut_ ? "incomplete" : "completed", &usage);
    if (!stream_) return whole;
    send(cut_ ? "response.incomplete" : "response.completed", R"("response":)" + whole);
    return std::exchange(out_, {});
  }

 private:
  void send(std::string_view type, std::string_view fields) {
    if (!stream_) return;
    out_ += fmt::format("event: {}\ndata: {{\"type\":\"{}\",\"sequence_number\":{},{}}}\n\n", type, type,
                        sequence_++, fields);
  }

  std::size_t index() const { return items_.size() - 1; }
  std::string place() const {
    const std::string at = fmt::format(R"("item_id":"{}","output_index":{})", items_.back().id, index());
    return items_.back().is_call ? at : at + R"(,"content_index":0)";
  }

  void take(const engine::text::chat_delta& delta, std::vector<token_detail>& tokens) {
    if (const auto* content = std::get_if<content_delta>(&delta)) {
      if (!open_ || items_.back().is_call) open_message();
      output_item& item = items_.back();
      item.text += content->text;
      send("response.output_text.delta", fmt::format(R"({},"delta":{},"logprobs":{})", place(),
                                                     in_quotes(content->text), logprob_list(tokens)));
      item.tokens.insert(item.tokens.end(), tokens.begin(), tokens.end());
      tokens.clear();
    } else if (const auto* call = std::get_if<tool_call_begin>(&delta)) {
      open_item({.id = "fc_" + suffix(), .is_call = true, .call_id = call->id, .name = call->name});
    } else if (const auto* arguments = std::get_if<tool_arguments_delta>(&delta)) {
      items_.back().text += arguments->text;
      send("response.function_call_arguments.delta",
           fmt::format(R"({},"delta":{})", place(), in_quotes(arguments->text)));
    }
  }

  // Of an item's identifier: the answer's own, and its number.
  std::string suffix() const {
    return fmt::format("{}{:02}", identity_.id.substr(identity_.id.find('_') + 1), items_.size());
  }

  void open_message() {
    open_item({.id = "msg_" + suffix()});
    send("response.content_part.added",
         place() + R"(,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""})");
  }

  void open_item(output_item item) {
    close_item();
    items_.push_back(std::move(item));
    open_ = true;
    send("response.output_item.added",
         fmt::format(R"("output_index":{},"item":{})", index(), items_.back().json("in_progress")));
  }

  void close_item() {
    if (!std::exchange(open_, false)) return;
    const output_item& item = items_.back();
    if (item.is_call) {
      send("response.function_call_arguments.done", fmt::format(R"({},"arguments":{},"name":{})", place(),
                                                                in_quotes(item.text), in_quotes(item.name)));
    } else {
      send("response.output_text.done", fmt::format(R"({},"text":{},"logprobs":{})", place(),
                                                    in_quotes(item.text), logprob_list(item.tokens)));
      send("response.content_part.done", fmt::format(R"({},"part":{})", place(), item.part_json()));
    }
    send("response.output_item.done",
         fmt::format(R"("output_index":{},"item":{})", index(), item.json(status())));
  }

  std::string_view status() const { return cut_ ? "incomplete" : "completed"; }

  std::string response_json(std::string_view status, const token_usage* usage) const {
    std::string out =
        fmt::format(R"({{"id":"{}","object":"response","created_at":{},"status":"{}","error":null,)",
                    identity_.id, identity_.created_s, status);
    out += cut_ && usage != nullptr ? R"("incomplete_details":{"reason":"max_output_tokens"},)"
                                    : R"("incomplete_details":null,)";
    out += R"("model":)" + in_quotes(identity_.model) + R"(,"output":[)";
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const bool last = i + 1 == items_.size();
      out += (i > 0 ? "," : "") + items_[i].json(last ? this->status() : "completed");
    }
    out += "]," + echo_;
    if (usage == nullptr) return out + R"(,"usage":null})";
    return out +
           fmt::format(
               R"(,"usage":{{"input_tokens":{},"input_tokens_details":{{"cached_tokens":{}}},)"
               R"("output_tokens":{},"output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":{}}}}})",
               usage->prompt_tokens, std::max<std::int64_t>(usage->cached_tokens, 0),
               usage->completion_tokens, usage->prompt_tokens + usage->completion_tokens);
  }

  const answer_identity identity_;
  const std::string echo_;
  const bool stream_;
  std::string out_;
  std::vector<output_item> items_;
  bool open_ = false;  // the last item goes on
  bool begun_ = false;
  bool cut_ = false;
  int sequence_ = 0;
};

}  // namespace

std::unique_ptr<response_writer> make_responses_writer(answer_identity identity, std::string echo,
                                                       bool stream) {
  return std::make_unique<responses_writer>(std::move(identity), std::move(echo), stream);
}

}  // namespace weir::gateway::api
