// What a chat parser's deltas add up to. For tests.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <variant>
#include <vector>

#include "engine/text/chat_format.hpp"

namespace weir::engine::text {

struct parsed_answer {
  std::string reasoning;
  std::string content;
  struct call {
    std::string id, name, arguments;
    bool operator==(const call&) const = default;
  };
  std::vector<call> calls;
  bool has_calls = false;
};

inline void take(parsed_answer& out, const std::vector<chat_delta>& deltas) {
  for (const auto& delta : deltas) {
    if (const auto* reasoning = std::get_if<reasoning_delta>(&delta)) out.reasoning += reasoning->text;
    if (const auto* content = std::get_if<content_delta>(&delta)) out.content += content->text;
    if (const auto* call = std::get_if<tool_call_begin>(&delta)) {
      CHECK(call->index == static_cast<int>(out.calls.size()));
      out.calls.push_back({call->id, call->name, {}});
    }
    if (const auto* more = std::get_if<tool_arguments_delta>(&delta)) {
      REQUIRE(more->index + 1 == static_cast<int>(out.calls.size()));
      out.calls.back().arguments += more->text;
    }
  }
}

inline parsed_answer parse_answer(const chat_format& format, bool thinking,
                                  const std::vector<std::int32_t>& tokens) {
  const auto parser = format.make_parser(thinking);
  parsed_answer out;
  for (const auto id : tokens) take(out, parser->push(id));
  take(out, parser->finish());
  out.has_calls = parser->has_tool_calls();
  return out;
}

}  // namespace weir::engine::text
