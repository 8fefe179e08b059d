#include <catch2/catch.hpp>

#include "engine/text/chat_format.hpp"
#include "tests/engine/text/support.hpp"

namespace weir::engine::text {
namespace {

// Deltas in one line: text as it is, [index id name( before a call's arguments and ) is not written.
struct transcript {
  std::string text;
  void operator()(const content_delta& d) { text += d.text; }
  void operator()(const reasoning_delta& d) { text += "<" + d.text + ">"; }
  void operator()(const tool_call_begin& d) {
    text += "[" + std::to_string(d.index) + " " + d.id + " " + d.name + "]";
  }
  void operator()(const tool_arguments_delta& d) {
    text += "{" + std::to_string(d.index) + ":" + d.text + "}";
  }
};

std::string parsed(std::string_view markup, bool* has_calls = nullptr) {
  const auto format = chat_format::detect(weir_tiny());
  REQUIRE(format);
  const auto parser = (*format)->make_parser(true);
  transcript out;
  // Arguments of one call that follow one another are joined, so that rows do not depend on how text falls
  // into tokens.
  std::string arguments;
  int argument_index = -1;
  const auto flush = [&] {
    if (argument_index >= 0) out(tool_arguments_delta{argument_index, std::exchange(arguments, {})});
    argument_index = -1;
  };
  const auto take = [&](const std::vector<chat_delta>& deltas) {
    for (const auto& d : deltas) {
      if (const auto* a = std::get_if<tool_arguments_delta>(&d)) {
        argument_index = a->index;
        arguments += a->text;
      } else {
        flush();
        std::visit(out, d);
      }
    }
  };
  for (const auto id : encoded_with_specials(*weir_tiny(), markup)) take(parser->push(id));
  take(parser->finish());
  flush();
  if (has_calls != nullptr) *has_calls = parser->has_tool_calls();
  return out.text;
}

const std::string k_section = "<|tool_calls_section_begin|>", k_section_end = "<|tool_calls_section_end|>";
const std::string k_call = "<|tool_call_begin|>", k_arguments = "<|tool_call_argument_begin|>";
const std::string k_call_end = "<|tool_call_end|>";

struct row {
  const char* name;
  std::string markup;
  std::string transcript;
};

const row k_rows[] = {
    {"content", "Hello, 世界 😀", "Hello, 世界 😀"},
    {"one call",
     k_section + k_call + "functions.add:0" + k_arguments + "{\"a\": 1}" + k_call_end + k_section_end,
     "[0 functions.add:0 add]{0:{\"a\": 1}}"},
    {"content, then two calls",
     "Let me see." + k_section + k_call + "functions.a:0" + k_arguments + "{}" + k_call_end + k_call +
         "functions.b:1" + k_arguments + "[1]" + k_call_end + k_section_end,
     "Let me see.[0 functions.a:0 a]{0:{}}[1 functions.b:1 b]{1:[1]}"},
    {"white space between calls",
     k_section + "\n" + k_call + " functions.a:0\n" + k_arguments + "{}" + k_call_end + "\n" + k_section_end +
         "done",
     "[0 functions.a:0 a]{0:{}}done"},
    {"no functions. before the name", k_section + k_call + "get_weather:3" + k_arguments + "{}" + k_call_end,
     "[0 get_weather:3 get_weather]{0:{}}"},
    {"dots and dashes in the name", k_call + "functions.my.tool-2:0" + k_arguments + "{}",
     "[0 functions.my.tool-2:0 my.tool-2]{0:{}}"},
    {"a call without a section", k_call + "functions.a:0" + k_arguments + "{}" + k_call_end,
     "[0 functions.a:0 a]{0:{}}"},
    {"no arguments", k_section + k_call + "functions.a:0" + k_arguments + k_call_end + k_section_end,
     "[0 functions.a:0 a]"},
    {"cut within arguments", k_section + k_call + "functions.a:0" + k_arguments + "{\"x\"",
     "[0 functions.a:0 a]{0:{\"x\"}"},
    {"missing call end",
     k_section + k_call + "functions.a:0" + k_arguments + "{}" + k_call + "functions.b:1" + k_arguments +
         "{}" + k_section_end + "x",
     "[0 functions.a:0 a]{0:{}}[1 functions.b:1 b]{1:{}}x"},
    {"cut within the header", "x" + k_section + k_call + "functions.a", "x"},
    {"cut after the section began", "x" + k_section, "x"},
    {"no index", k_section + k_call + "functions.a" + k_arguments + "{}" + k_call_end + k_section_end, "{}"},
    {"index no number", k_call + "functions.a:x" + k_arguments, ""},
    {"no name", k_call + "functions.:0" + k_arguments, ""},
    {"blank in the name", k_call + "functions.a b:0" + k_arguments, ""},
    {"call end in the header", k_call + "functions.a:0" + k_call_end + "x", "x"},
    {"text in the section", k_section + "hello" + k_section_end + " there", "hello there"},
    {"empty section", "a" + k_section + k_section_end + "b", "ab"},
    {"stray ends", "a" + k_call_end + k_section_end + k_arguments + "b", "ab"},
    {"other special tokens", "a<|im_user|>b[BOS]c<|reserved_token_2053|>", "abc"},
    {"other special token in a header", k_call + "functions.a:0<|im_user|>x", "x"},
    {"a very long header", k_call + std::string(300, 'n') + ":0" + k_arguments + "{}",
     std::string(300, 'n') + ":0{}"},
};

TEST_CASE("tokens to content and tool calls") {
  for (const auto& r : k_rows) {
    INFO(r.name);
    bool has_calls = false;
    CHECK(parsed(r.markup, &has_calls) == r.transcript);
    CHECK(has_calls ==
          (r.transcript.find('[') < r.transcript.find(']') && r.transcript.find("[0 ") != std::string::npos));
  }
}

TEST_CASE("no cut of an answer shows markup") {
  const std::string calls = k_section + k_call + "functions.a:0" + k_arguments + "{\"x\": 1}" + k_call_end +
                            k_call + "functions.b:1" + k_arguments + "{}" + k_call_end + k_section_end;
  const auto format = *chat_format::detect(weir_tiny());
  const auto tokens = encoded_with_specials(*weir_tiny(), "Hm." + calls);
  for (std::size_t count = 3; count <= tokens.size(); ++count) {
    const auto parser = format->make_parser(true);
    std::string content;
    const auto take = [&content](const std::vector<chat_delta>& deltas) {
      for (const auto& d : deltas) {
        if (const auto* text = std::get_if<content_delta>(&d)) content += text->text;
      }
    };
    for (std::size_t i = 0; i < count; ++i) take(parser->push(tokens[i]));
    take(parser->finish());
    INFO(count << " tokens");
    CHECK(std::string("Hm.").starts_with(content));
  }
}

TEST_CASE("deltas come with the token that decides them") {
  const auto format = chat_format::detect(weir_tiny());
  const auto parser = (*format)->make_parser(true);
  const auto tok = weir_tiny();
  CHECK(std::get<content_delta>(parser->push('a').at(0)).text == "a");
  CHECK(parser->push(0xC3).empty());
  CHECK(std::get<content_delta>(parser->push(0xA9).at(0)).text == "é");
  CHECK(parser->push(0xC3).empty());
  CHECK(std::get<content_delta>(parser->push(*tok->special_id(k_section)).at(0)).text == "\xEF\xBF\xBD");
  CHECK(parser->push(*tok->special_id(k_call)).empty());
  for (const char c : std::string("f:0")) CHECK(parser->push(c).empty());
  CHECK(std::get<tool_call_begin>(parser->push(*tok->special_id(k_arguments)).at(0)).name == "f");
  CHECK(std::get<tool_arguments_delta>(parser->push('{').at(0)).text == "{");
}

}  // namespace
}  // namespace weir::engine::text
