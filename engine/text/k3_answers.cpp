#include <string>
#include <utility>

#include "engine/text/k3_markup.hpp"

namespace weir::engine::text {

namespace {

markup_pieces tag(std::int32_t kind, std::string text, const k3_markup& m) {
  return {{kind, {}}, {-1, std::move(text)}, {m.sep, {}}};
}

markup_pieces operator+(markup_pieces left, const markup_pieces& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

}  // namespace

// Arguments are one JSON text, not an element for each, so that a schema holds for all of them at once.
answer_markup k3_answers(const k3_markup& m, bool thinking) {
  const auto open = [&m](std::string text) { return tag(m.open, std::move(text), m); };
  const auto close = [&m](std::string text) { return tag(m.close, std::move(text), m); };
  answer_markup out;
  if (thinking) out.thought_end = close("think") + open("response");
  out.text_end = close("response") + close("message");
  out.calls_begin = close("response") + open("tools");
  out.call_begin = {{m.open, {}}, {-1, "call tool=\""}};
  out.name_end = {{-1, "\" index=\""}};
  out.arguments_begin = markup_pieces{{-1, "\""}, {m.sep, {}}} + open("json type=\"object\"");
  out.call_end = close("json") + close("call");
  out.calls_end = close("tools") + close("message");
  out.first_index = 1;
  return out;
}

}  // namespace weir::engine::text
