// Kimi-K3's chat format ("XTML"), its prompts and what parses its answers. Tags of special tokens around
// names, attributes and text, each piece of which is tokenized by itself. The checkpoint has no template; its
// renderer is a Python program, whose rules these are:
//
//   open-tag    <|open|> NAME { " KEY" "=\"" VALUE "\"" } <|sep|>      & and " escaped in VALUE
//   close-tag   <|close|> NAME <|sep|>
//   message     open-tag message, body, close-tag message, <|end_of_msg|>
//
// Order: tool declaration, thinking effort, conversation, tool choice, response format, opener of the answer.
// Tool results of one run are put into the order of the calls that they answer, if each answers one.
// Pure; any thread.
#pragma once

#include <memory>

#include "engine/text/chat_format.hpp"

namespace weir::engine::text {

// Null where the tokenizer lacks one of the four special tokens.
std::shared_ptr<const chat_format> detect_k3_format(std::shared_ptr<const tokenizer> tok);

}  // namespace weir::engine::text
