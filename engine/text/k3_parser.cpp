#include <simdjson.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "engine/text/detokenizer.hpp"
#include "engine/text/k3_markup.hpp"
#include "engine/text/quote.hpp"

namespace weir::engine::text {
namespace {

constexpr std::size_t k_tag_bytes_max = 1024;  // longer is not a tag
constexpr std::size_t k_tool_name_bytes_max = 256;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

bool is_tool_name(std::string_view name) {
  return !name.empty() && name.size() <= k_tool_name_bytes_max &&
         std::none_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

bool is_json(const std::string& text) {
  simdjson::dom::parser parser;
  simdjson::dom::element value;
  return parser.parse(text).get(value) == simdjson::SUCCESS;
}

enum class place {
  message,   // between channels, or behind the message's end
  think,     // reasoning
  response,  // content
  tools,     // between calls
  call,      // between arguments
  argument,  // a value
  json,      // a call's arguments as one text
};

enum class tag_kind { none, open, close };

class k3_parser final : public chat_parser {
 public:
  k3_parser(std::shared_ptr<const tokenizer> tok, const k3_markup& markup, bool thinking)
      : tok_(std::move(tok)),
        markup_(markup),
        detokenizer_(*tok_),
        place_(thinking ? place::think : place::response) {}

  std::vector<chat_delta> push(std::int32_t token) override {
    if (tok_->is_special(token)) {
      text(detokenizer_.finish());
      special(token);
    } else {
      text(detokenizer_.push(token));
    }
    return std::exchange(deltas_, {});
  }

  std::vector<chat_delta> finish() override {
    text(detokenizer_.finish());  // a tag in progress is one that never came
    if (place_ == place::argument && !is_string_) arguments(std::exchange(value_, {}));
    return std::exchange(deltas_, {});
  }

  bool has_tool_calls() const noexcept override { return call_count_ > 0; }

 private:
  void special(std::int32_t token) {
    if (token == markup_.open || token == markup_.close) {
      give_up();
      kind_ = token == markup_.open ? tag_kind::open : tag_kind::close;
      held_ = tok_->token_bytes(token);
    } else if (token == markup_.sep && kind_ != tag_kind::none) {
      const auto tag = parse_k3_tag(tag_);
      const bool known = tag && (kind_ == tag_kind::open ? opened(*tag) : closed(tag->name));
      held_ += tok_->token_bytes(token);
      if (known) forget_tag();
      give_up();
    } else {
      give_up();
    }
  }

  void text(std::string piece) {
    if (piece.empty()) return;
    if (kind_ == tag_kind::none) return body(std::move(piece));
    tag_ += piece;
    held_ += piece;
    if (tag_.size() <= k_tag_bytes_max) return;
    std::string no_tag = std::exchange(in_value() ? held_ : tag_, {});
    forget_tag();
    body(std::move(no_tag));
  }

  void forget_tag() {
    kind_ = tag_kind::none;
    held_.clear();
    tag_.clear();
  }

  // What is no tag of its place is part of an argument's value all the same, and nothing elsewhere.
  void give_up() {
    std::string written = std::exchange(held_, {});
    forget_tag();
    if (in_value()) body(std::move(written));
  }

  bool in_value() const noexcept { return place_ == place::argument || place_ == place::json; }

  void body(std::string piece) {
    if (piece.empty()) return;
    switch (place_) {
      case place::think:
        deltas_.push_back(reasoning_delta{std::move(piece)});
        break;
      case place::response:
        deltas_.push_back(content_delta{std::move(piece)});
        break;
      case place::message:
      case place::tools:
      case place::call:  // white space between elements is layout
        if (!is_blank(piece)) deltas_.push_back(content_delta{std::move(piece)});
        break;
      case place::argument:
        if (is_string_) {
          escaped(piece);
        } else {
          value_ += piece;
        }
        break;
      case place::json:
        has_arguments_ = true;
        arguments(std::move(piece));
        break;
    }
  }

  // A tag that was left open ends with what encloses it. False: no tag of this place.
  bool opened(const k3_tag& tag) {
    if (tag.name == "call" && is_tool_name(tag.tool) &&
        (place_ == place::message || place_ >= place::tools)) {
      end_call();
      begin_call(tag.tool);
    } else if (tag.name == "argument" && !has_json_ && (place_ == place::call || place_ == place::argument)) {
      end_argument();
      begin_argument(tag);
    } else if (tag.name == "json" && place_ == place::call && !has_arguments_) {
      has_json_ = true;
      place_ = place::json;
    } else if (place_ <= place::tools && (tag.name == "think" || tag.name == "response")) {
      place_ = tag.name == "think" ? place::think : place::response;
    } else if (place_ <= place::tools && tag.name == "tools") {
      place_ = place::tools;
    } else {
      return false;
    }
    return true;
  }

  bool closed(std::string_view name) {
    if (name == "argument" && place_ == place::argument) {
      end_argument();
    } else if (name == "json" && place_ == place::json) {
      place_ = place::call;
    } else if (name == "call" && place_ >= place::call) {
      end_call();
    } else if (name == "tools" && place_ >= place::tools) {
      end_call();
      place_ = place::message;
    } else if ((name == "think" && place_ == place::think) ||
               (name == "response" && place_ == place::response)) {
      place_ = place::message;
    } else if (name == "message") {
      end_call();
      place_ = place::message;
    } else {
      return false;
    }
    return true;
  }

  void begin_call(const std::string& name) {
    deltas_.push_back(
        tool_call_begin{call_count_, "functions." + name + ":" + std::to_string(call_count_), name});
    ++call_count_;
    has_arguments_ = false;
    has_json_ = false;
    place_ = place::call;
  }

  void end_call() {
    if (place_ < place::call) return;
    end_argument();
    if (!has_json_ || !has_arguments_) arguments(has_arguments_ ? "}" : "{}");
    place_ = place::tools;
  }

  void begin_argument(const k3_tag& tag) {
    std::string text = has_arguments_ ? ", " : "{";
    append_quoted(text, tag.key);
    text += ": ";
    is_string_ = tag.type.empty() || tag.type == "string";
    if (is_string_) text += '"';
    arguments(std::move(text));
    has_arguments_ = true;
    value_.clear();
    place_ = place::argument;
  }

  void end_argument() {
    if (place_ != place::argument) return;
    if (is_string_) {
      arguments("\"");
    } else if (is_json(value_)) {
      arguments(std::exchange(value_, {}));
    } else {  // not the JSON that its type promises: a string, so that the whole stays JSON
      std::string quoted;
      append_quoted(quoted, std::exchange(value_, {}));
      arguments(std::move(quoted));
    }
    place_ = place::call;
  }

  void escaped(std::string_view piece) {
    std::string quoted;
    append_quoted(quoted, piece);
    arguments(quoted.substr(1, quoted.size() - 2));
  }

  void arguments(std::string piece) {
    if (!piece.empty()) deltas_.push_back(tool_arguments_delta{call_count_ - 1, std::move(piece)});
  }

  std::shared_ptr<const tokenizer> tok_;
  k3_markup markup_;
  detokenizer detokenizer_;
  place place_;
  tag_kind kind_ = tag_kind::none;
  std::string held_;  // the tag so far, as the model wrote it
  std::string tag_;   // its text
  bool is_string_ = false;
  std::string value_;           // of an argument that is no string, until it is whole
  bool has_arguments_ = false;  // of the current call, as has_json_
  bool has_json_ = false;
  int call_count_ = 0;
  std::vector<chat_delta> deltas_;
};

}  // namespace

std::unique_ptr<chat_parser> make_k3_parser(std::shared_ptr<const tokenizer> tok, const k3_markup& markup,
                                            bool thinking) {
  return std::make_unique<k3_parser>(std::move(tok), markup, thinking);
}

}  // namespace weir::engine::text
