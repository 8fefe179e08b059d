// Kimi-K3's chat markup: its special tokens by id, and its tags as the model writes them. Plain values; any
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/text/chat_format.hpp"

namespace weir::engine::text {

struct k3_markup {
  std::int32_t open;
  std::int32_t close;
  std::int32_t sep;
  std::int32_t end_of_msg;
};

// What stands between <|open|> and <|sep|>: a name, and the attributes that an answer may have.
struct k3_tag {
  std::string name;
  std::string tool;  // of a call
  std::string key;   // of an argument
  std::string type;  // of an argument or of json
};

// Nothing where it is no tag: an attribute without its quotes, more than the markup allows between them.
std::optional<k3_tag> parse_k3_tag(std::string_view text);

// `thinking`, here and below: the prompt ended with the opener of the thinking channel, else with that of the
// response.
answer_markup k3_answers(const k3_markup& markup, bool thinking);
std::unique_ptr<chat_parser> make_k3_parser(std::shared_ptr<const tokenizer> tok, const k3_markup& markup,
                                            bool thinking);

}  // namespace weir::engine::text
