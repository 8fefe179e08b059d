// The special tokens of the Kimi-Linear / Kimi-K2 chat markup, by id. Plain values; any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/text/chat_format.hpp"

namespace weir::engine::text {

struct kimi_markup {
  std::int32_t im_system;
  std::int32_t im_user;
  std::int32_t im_assistant;
  std::int32_t im_middle;
  std::int32_t im_end;
  std::int32_t section_begin;   // <|tool_calls_section_begin|>
  std::int32_t section_end;     // <|tool_calls_section_end|>
  std::int32_t call_begin;      // <|tool_call_begin|>
  std::int32_t argument_begin;  // <|tool_call_argument_begin|>
  std::int32_t call_end;        // <|tool_call_end|>
};

std::unique_ptr<chat_parser> make_kimi_parser(std::shared_ptr<const tokenizer> tok,
                                              const kimi_markup& markup);

}  // namespace weir::engine::text
