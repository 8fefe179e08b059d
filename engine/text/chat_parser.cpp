#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/text/detokenizer.hpp"
#include "engine/text/kimi_markup.hpp"

namespace weir::engine::text {
namespace {

constexpr std::size_t k_header_bytes_max = 256;  // of functions.NAME:INDEX; longer is not a header
constexpr std::size_t k_index_digits_max = 9;
constexpr std::string_view k_whitespace = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(k_whitespace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(k_whitespace) + 1 - first);
}

// NAME of [functions.]NAME:INDEX.
std::optional<std::string_view> function_name(std::string_view id) {
  constexpr std::string_view k_prefix = "functions.";
  const std::size_t colon = id.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view index = id.substr(colon + 1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (index.empty() || index.size() > k_index_digits_max) return std::nullopt;
  if (!std::all_of(index.begin(), index.end(), is_digit)) return std::nullopt;
  std::string_view name = id.substr(0, colon);
  if (name.starts_with(k_prefix)) name.remove_prefix(k_prefix.size());
  const auto is_name = [&](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
           c == '.';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_name)) return std::nullopt;
  return name;
}

enum class place {
  content,    // outside tool calls
  section,    // between section_begin and the next call_begin or section_end
  header,     // after call_begin, before argument_begin
  arguments,  // after argument_begin, before call_end
};

class kimi_parser final : public chat_parser {
 public:
  kimi_parser(std::shared_ptr<const tokenizer> tok, const kimi_markup& markup)
      : tok_(std::move(tok)), markup_(markup), detokenizer_(*tok_) {}

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
    text(detokenizer_.finish());  // a header in progress is a call that never came
    return std::exchange(deltas_, {});
  }

  bool has_tool_calls() const noexcept override { return call_count_ > 0; }

 private:
  void special(std::int32_t token) {
    if (token == markup_.section_begin) {
      place_ = place::section;
    } else if (token == markup_.call_begin) {
      place_ = place::header;
      header_.clear();
    } else if (token == markup_.argument_begin) {
      if (place_ == place::header) begin_arguments();
    } else if (token == markup_.call_end) {
      if (place_ == place::header) place_ = place::content;
      if (place_ == place::arguments) place_ = place::section;
    } else if (token == markup_.section_end || place_ == place::header) {
      place_ = place::content;
    }
  }

  void text(std::string piece) {
    if (piece.empty()) return;
    switch (place_) {
      case place::content:
        deltas_.push_back(content_delta{std::move(piece)});
        break;
      case place::arguments:
        deltas_.push_back(tool_arguments_delta{call_count_ - 1, std::move(piece)});
        break;
      case place::header:
        header_ += piece;
        if (header_.size() > k_header_bytes_max) content(std::exchange(header_, {}));
        break;
      case place::section:  // white space between calls is layout
        if (piece.find_first_not_of(k_whitespace) != std::string::npos) content(std::move(piece));
        break;
    }
  }

  // Text where markup was expected: the markup ends here.
  void content(std::string piece) {
    deltas_.push_back(content_delta{std::move(piece)});
    place_ = place::content;
  }

  void begin_arguments() {
    const std::string_view id = trimmed(header_);
    const auto name = function_name(id);
    place_ = name ? place::arguments : place::content;
    if (name) deltas_.push_back(tool_call_begin{call_count_++, std::string(id), std::string(*name)});
  }

  std::shared_ptr<const tokenizer> tok_;
  kimi_markup markup_;
  detokenizer detokenizer_;
  place place_ = place::content;
  std::string header_;  // text since call_begin
  int call_count_ = 0;
  std::vector<chat_delta> deltas_;
};

}  // namespace

std::unique_ptr<chat_parser> make_kimi_parser(std::shared_ptr<const tokenizer> tok,
                                              const kimi_markup& markup) {
  return std::make_unique<kimi_parser>(std::move(tok), markup);
}

}  // namespace weir::engine::text
