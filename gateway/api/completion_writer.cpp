#include <fmt/format.h>

#include "gateway/api/json.hpp"
#include "gateway/api/logprobs_json.hpp"
#include "gateway/api/response_writer.hpp"

namespace weir::gateway::api {

namespace {

std::string text_of(const choice_event& event) {
  std::string text;
  for (const auto& delta : event.deltas) {
    if (const auto* content = std::get_if<engine::text::content_delta>(&delta)) text += content->text;
  }
  return text;
}

std::string answer_head(const answer_identity& identity) {
  std::string out = R"({"id":)";
  append_quoted(out, identity.id);
  out += fmt::format(R"(,"object":"text_completion","created":{},"model":)", identity.created_s);
  append_quoted(out, identity.model);
  out += R"(,"choices":[)";
  return out;
}

void append_choice(std::string& out, int index, std::string_view text, std::string_view logprobs,
                   std::optional<finish_kind> finish) {
  out += fmt::format(R"({{"index":{},"text":)", index);
  append_quoted(out, text);
  out += fmt::format(R"(,"logprobs":{},"finish_reason":)", logprobs);
  if (finish) {
    append_quoted(out, to_text(*finish));
  } else {
    out += "null";
  }
  out += '}';
}

class completion_stream_writer final : public response_writer {
 public:
  completion_stream_writer(const answer_identity& identity, int choice_count, bool with_usage,
                           std::vector<std::string> echoes)
      : head_("data: " + answer_head(identity)),
        tail_(with_usage ? "],\"usage\":null}\n\n" : "]}\n\n"),
        echoes_(std::move(echoes)),
        offsets_(choice_count, 0),
        with_usage_(with_usage) {
    echoes_.resize(static_cast<std::size_t>(choice_count));
  }

  std::string write(const choice_event& event) override {
    std::string text = std::move(echoes_[event.choice]);
    echoes_[event.choice].clear();
    text += text_of(event);
    if (text.empty() && event.tokens.empty() && !event.finish) return {};
    std::string out = head_;
    append_choice(out, event.choice, text, completion_logprobs_json(event.tokens, offsets_[event.choice]),
                  event.finish);
    out += tail_;
    return out;
  }

  std::string finish(const token_usage& usage) override {
    std::string out;
    if (with_usage_) out = fmt::format("{}],{}}}\n\n", head_, usage_json(usage));
    out += "data: [DONE]\n\n";
    return out;
  }

 private:
  std::string head_;
  std::string tail_;
  std::vector<std::string> echoes_;
  std::vector<std::size_t> offsets_;
  bool with_usage_;
};

class completion_body_writer final : public response_writer {
 public:
  completion_body_writer(answer_identity identity, int choice_count, std::vector<std::string> echoes)
      : identity_(std::move(identity)), choices_(choice_count) {
    for (std::size_t i = 0; i < echoes.size(); ++i) choices_[i].text = std::move(echoes[i]);
  }

  std::string write(const choice_event& event) override {
    auto& choice = choices_[event.choice];
    choice.text += text_of(event);
    choice.tokens.insert(choice.tokens.end(), event.tokens.begin(), event.tokens.end());
    if (event.finish) choice.finish = *event.finish;
    return {};
  }

  std::string finish(const token_usage& usage) override {
    std::string out = answer_head(identity_);
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      if (i > 0) out += ',';
      std::size_t offset = 0;
      append_choice(out, static_cast<int>(i), choices_[i].text,
                    completion_logprobs_json(choices_[i].tokens, offset), choices_[i].finish);
    }
    out += fmt::format("],{}}}", usage_json(usage));
    return out;
  }

 private:
  struct choice_state {
    std::string text;
    std::vector<token_detail> tokens;
    finish_kind finish = finish_kind::stop;
  };

  answer_identity identity_;
  std::vector<choice_state> choices_;
};

}  // namespace

std::unique_ptr<response_writer> make_completion_writer(answer_identity identity, int choice_count,
                                                        writer_mode mode, std::vector<std::string> echoes) {
  if (mode == writer_mode::body) {
    return std::make_unique<completion_body_writer>(std::move(identity), choice_count, std::move(echoes));
  }
  return std::make_unique<completion_stream_writer>(
      identity, choice_count, mode == writer_mode::stream_with_usage, std::move(echoes));
}

}  // namespace weir::gateway::api
