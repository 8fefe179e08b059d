// How a model writes an answer: the markup around its reasoning, its text and its calls of functions, for
// those who bind answers to a form. A whole answer is one of
//
//   [ THOUGHT thought_end ] TEXT text_end
//   [ THOUGHT thought_end ] TEXT calls_begin CALL { CALL } calls_end
//
// where CALL is call_begin NAME name_end INDEX arguments_begin ARGUMENTS call_end, ARGUMENTS is JSON and
// INDEX are digits. What the prompt ends with is not part of it. Plain values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weir::engine::text {

struct markup_piece {
  std::int32_t special = -1;  // a special token; -1: text
  std::string text;           // never empty where special is -1
};
using markup_pieces = std::vector<markup_piece>;

struct answer_markup {
  std::optional<markup_pieces> thought_end;  // nothing: the answer begins with its text
  markup_pieces text_end;
  markup_pieces calls_begin;
  markup_pieces call_begin;
  markup_pieces name_end;
  markup_pieces arguments_begin;
  markup_pieces call_end;
  markup_pieces calls_end;
  std::optional<std::uint32_t> first_index;  // indices count up from here; nothing: they may be any
};

}  // namespace weir::engine::text
