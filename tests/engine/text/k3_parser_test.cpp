// Kimi-K3's answers: channels to reasoning and content, calls to JSON arguments; what is malformed is no
// text.
#include <simdjson.h>
#include <catch2/catch.hpp>

#include "engine/text/k3_markup.hpp"
#include "tests/engine/text/parsed_answer.hpp"
#include "tests/engine/text/support.hpp"

namespace weir::engine::text {
namespace {

std::shared_ptr<const tokenizer> k3_tokenizer() {
  static const auto tok = make_tokenizer(
      rank_file(),
      R"({"added_tokens_decoder":{"256":{"content":"<|end_of_msg|>"},"257":{"content":"<|open|>"},)"
      R"("258":{"content":"<|close|>"},"259":{"content":"<|sep|>"},"260":{"content":"[EOS]"}}})");
  REQUIRE(tok);
  return *tok;
}

// (o) (c) (s) (e) for the four special tokens.
parsed_answer parsed(std::string markup, bool thinking = true) {
  const std::pair<const char*, const char*> k_short[] = {
      {"(o)", "<|open|>"}, {"(c)", "<|close|>"}, {"(s)", "<|sep|>"}, {"(e)", "<|end_of_msg|>"}};
  for (const auto& [from, to] : k_short) {
    for (std::size_t at = markup.find(from); at != std::string::npos; at = markup.find(from, at))
      markup.replace(at, 3, to);
  }
  const auto format = chat_format::detect(k3_tokenizer());
  REQUIRE(format);
  return parse_answer(**format, thinking, encoded_with_specials(*k3_tokenizer(), markup));
}

bool is_json(const std::string& text) {
  simdjson::dom::parser parser;
  return parser.parse(text).error() == simdjson::SUCCESS;
}

const std::string k_end = "(c)message(s)";
const std::string k_thought = "Hm.(c)think(s)";

}  // namespace

TEST_CASE("channels of an answer", "[k3_parser]") {
  struct row {
    const char* name;
    std::string markup;
    bool thinking;
    const char* reasoning;
    const char* content;
  };
  const row rows[] = {
      {"thought and response", "Hm, 世界.(c)think(s)(o)response(s)Yes 😀.(c)response(s)" + k_end, true,
       "Hm, 世界.", "Yes 😀."},
      {"without thinking", "Yes.(c)response(s)" + k_end, false, "", "Yes."},
      {"cut within the thought", "Hm", true, "Hm", ""},
      {"cut within the response", k_thought + "(o)response(s)Y", true, "Hm.", "Y"},
      {"empty thought", "(c)think(s)(o)response(s)Yes.(c)response(s)" + k_end, true, "", "Yes."},
      {"white space between channels", k_thought + "\n(o)response(s)Yes.(c)response(s)\n" + k_end, true,
       "Hm.", "Yes."},
      {"response opened within the thought", "Hm.(o)response(s)Yes.", true, "Hm.", "Yes."},
      {"text between channels", k_thought + "Oh.(o)response(s)Yes.", true, "Hm.", "Oh.Yes."},
      {"an unknown tag", "a(o)thought(s)b(c)thought(s)c", true, "abc", ""},
      {"a tag that is cut", k_thought + "(o)resp", true, "Hm.", ""},
      {"a tag within a tag", k_thought + "(o)resp(o)response(s)Yes.", true, "Hm.", "Yes."},
      {"a stray separator", "a(s)b", true, "ab", ""},
      {"another special token", k_thought + "(o)response(s)a[EOS]b", true, "Hm.", "ab"},
      {"a very long tag", k_thought + "(o)" + std::string(1100, 'x'), true, "Hm.", nullptr},
      {"the wrong channel closed", "a(c)response(s)b", true, "ab", ""},
      {"call outside of tools, in the thought", "a(o)call tool=\"f\"(s)b", true, "ab", ""},
  };
  for (const row& r : rows) {
    INFO(r.name);
    const auto answer = parsed(r.markup, r.thinking);
    CHECK(answer.reasoning == r.reasoning);
    if (r.content != nullptr) CHECK(answer.content == r.content);
    if (r.content == nullptr) CHECK(answer.content == std::string(1100, 'x'));
    CHECK_FALSE(answer.has_calls);
  }
}

namespace {

std::string argument(const std::string& key, const std::string& type, const std::string& value) {
  return "(o)argument key=\"" + key + "\" type=\"" + type + "\"(s)" + value + "(c)argument(s)";
}

std::string call(const std::string& name, const std::string& body) {
  return "(o)call tool=\"" + name + "\" index=\"1\"(s)" + body + "(c)call(s)";
}

struct call_row {
  const char* name;
  std::string markup;
  std::vector<std::string> names;
  std::vector<std::string> arguments;
  bool whole = true;
};

const call_row k_call_rows[] = {
    {"every type",
     call("f", argument("s", "string", "a \"b\"\n\\ é") + argument("n", "number", "-1.5e3") +
                   argument("b", "boolean", "true") + argument("x", "null", "null") +
                   argument("l", "array", "[1, \"2\"]") + argument("o", "object", "{\"k\": {}}")),
     {"f"},
     {R"({"s": "a \"b\"\n\\ é", "n": -1.5e3, "b": true, "x": null, "l": [1, "2"], "o": {"k": {}}})"}},
    {"two calls",
     call("f", argument("a", "string", "")) + "\n" + call("g.h-2", argument("b", "number", "2")),
     {"f", "g.h-2"},
     {R"({"a": ""})", R"({"b": 2})"}},
    {"no arguments", call("f", ""), {"f"}, {"{}"}},
    {"arguments as one text",
     call("f", "(o)json type=\"object\"(s){\"a\": [1]}(c)json(s)"),
     {"f"},
     {R"({"a": [1]})"}},
    {"one text that is empty", call("f", "(o)json type=\"object\"(s)(c)json(s)"), {"f"}, {"{}"}},
    {"escaped name and key",
     call("f&amp;&quot;g&lt;", argument("k&quot;&amp;", "string", "v&amp;")),
     {"f&\"g&lt;"},
     {R"({"k\"&": "v&amp;"})"}},
    {"a number that is none",
     call("f", argument("n", "number", "1, \"m\": 2")),
     {"f"},
     {R"({"n": "1, \"m\": 2"})"}},
    {"an empty object value", call("f", argument("n", "object", "")), {"f"}, {R"({"n": ""})"}},
    {"no type", call("f", "(o)argument key=\"k\"(s)v(c)argument(s)"), {"f"}, {R"({"k": "v"})"}},
    {"tags left open",
     "(o)call tool=\"f\" index=\"1\"(s)(o)argument key=\"a\" type=\"string\"(s)x"
     "(o)argument key=\"b\" type=\"number\"(s)1(o)call tool=\"g\"(s)",
     {"f", "g"},
     {R"({"a": "x", "b": 1})", "{}"}},
    {"markup within a value",
     call("f", argument("a", "string", "x(o)y(s)z(c)response(s)")),
     {"f"},
     {R"({"a": "x<|open|>y<|sep|>z<|close|>response<|sep|>"})"}},
    {"cut within a value",
     "(o)call tool=\"f\" index=\"1\"(s)(o)argument key=\"a\" type=\"string\"(s)x",
     {"f"},
     {R"({"a": "x)"},
     false},
    {"cut within a tag",
     "(o)call tool=\"f\" index=\"1\"(s)(o)argument key=\"a\" type=\"string\"(s)x(c)argum",
     {"f"},
     {R"({"a": "x)"},
     false},
    {"cut within a number",
     "(o)call tool=\"f\" index=\"1\"(s)(o)argument key=\"a\" type=\"number\"(s)12",
     {"f"},
     {R"({"a": 12)"},
     false},
};

}  // namespace

TEST_CASE("calls of an answer", "[k3_parser]") {
  const std::string begin = k_thought + "(o)response(s)Wait.(c)response(s)(o)tools(s)";
  const std::string end = "(c)tools(s)" + k_end;
  for (const call_row& r : k_call_rows) {
    INFO(r.name);
    const auto answer = parsed(begin + r.markup + (r.whole ? end : ""));
    CHECK(answer.reasoning == "Hm.");
    CHECK(answer.content == "Wait.");
    CHECK(answer.has_calls);
    REQUIRE(answer.calls.size() == r.names.size());
    for (std::size_t i = 0; i < r.names.size(); ++i) {
      CHECK(answer.calls[i].name == r.names[i]);
      CHECK(answer.calls[i].id == "functions." + r.names[i] + ":" + std::to_string(i));
      CHECK(answer.calls[i].arguments == r.arguments[i]);
      CHECK(is_json(answer.calls[i].arguments) == r.whole);
    }
  }
}

TEST_CASE("calls that are none leave what stands in them", "[k3_parser]") {
  for (const std::string tag : {"call", "call tool=\"\"", "call tool=f", "call tool=\"f", "call  tool=\"f\"",
                                "call tool=\"f\"index=\"1\"", "Call tool=\"f\""}) {
    INFO(tag);
    const auto answer = parsed(k_thought + "(o)tools(s)(o)" + tag + "(s)x(c)call(s)(c)tools(s)");
    CHECK(answer.calls.empty());
    CHECK_FALSE(answer.has_calls);
    CHECK(answer.content == "x");
  }
}

TEST_CASE("what the parser reads is what the renderer writes", "[k3_parser]") {
  const auto format = chat_format::detect(k3_tokenizer());
  REQUIRE(format);
  chat_prompt prompt;
  prompt.messages.push_back({"user", "Hi", {}, {}});
  const std::vector<std::int32_t> before = (*format)->render(prompt).value();
  chat_message answer{"assistant", "Here \"you\" are & so on.", {}, {}};
  answer.reasoning = "They want <b>two</b>.";
  answer.tool_calls = {
      {"functions.get:0", "get", R"({"city": "Köln \"am\" Rhein", "days": 3, "deep": {"a": [null]}})"},
      {"functions.set:1", "set", "{}"}};
  prompt.messages.push_back(answer);
  const std::vector<std::int32_t> after = (*format)->render(prompt).value();
  const auto parser = (*format)->make_parser(true);
  const auto rest = std::mismatch(before.begin(), before.end(), after.begin()).second;
  parsed_answer out;
  for (auto id = rest; id != after.end() && *id != (*format)->stop_tokens().front(); ++id)
    take(out, parser->push(*id));
  take(out, parser->finish());
  CHECK(out.reasoning == answer.reasoning);
  CHECK(out.content == answer.content);
  REQUIRE(out.calls.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& call = answer.tool_calls[i];
    CHECK(out.calls[i] == parsed_answer::call{call.id, call.name, call.arguments});
  }
  CHECK((*format)->stop_tokens() == std::vector<std::int32_t>{256, 260});
}

namespace {

void write(const markup_pieces& pieces, std::vector<std::int32_t>& out) {
  for (const auto& piece : pieces) {
    if (piece.special >= 0) {
      out.push_back(piece.special);
    } else {
      k3_tokenizer()->encode(piece.text, out);
    }
  }
}

}  // namespace

TEST_CASE("an answer written in the format's markup is read as it was meant", "[k3_parser]") {
  const auto format = *chat_format::detect(k3_tokenizer());
  const parsed_answer::call calls[] = {
      {"functions.get:0", "get", R"({"s": "<|close|>json<|sep|>", "n": [1]})"},
      {"functions.set-2:1", "set-2", "{}"}};
  for (const bool thinking : {true, false}) {
    for (const std::size_t count : {0, 1, 2}) {
      const answer_markup m = format->answers(thinking);
      REQUIRE(m.thought_end.has_value() == thinking);
      std::vector<std::int32_t> tokens;
      if (thinking) {
        k3_tokenizer()->encode("Hm. <|close|>think<|sep|>", tokens);  // no special tokens
        write(*m.thought_end, tokens);
      }
      k3_tokenizer()->encode("Yes.", tokens);
      write(count > 0 ? m.calls_begin : m.text_end, tokens);
      for (std::size_t i = 0; i < count; ++i) {
        write(m.call_begin, tokens);
        k3_tokenizer()->encode(calls[i].name, tokens);
        write(m.name_end, tokens);
        k3_tokenizer()->encode(std::to_string(m.first_index.value() + i), tokens);
        write(m.arguments_begin, tokens);
        k3_tokenizer()->encode(calls[i].arguments, tokens);
        write(m.call_end, tokens);
      }
      if (count > 0) write(m.calls_end, tokens);
      const auto answer = parse_answer(*format, thinking, tokens);
      CHECK(answer.reasoning == (thinking ? "Hm. <|close|>think<|sep|>" : ""));
      CHECK(answer.content == "Yes.");
      CHECK(answer.calls == std::vector(calls, calls + count));
    }
  }
}

TEST_CASE("string arguments stream, and other values come whole", "[k3_parser]") {
  const auto parser = (*chat_format::detect(k3_tokenizer()))->make_parser(true);
  const auto push = [&parser](std::string_view text) {
    std::vector<chat_delta> last;
    for (const char c : text) last = parser->push(c);
    return last;
  };
  const auto tag = [&](std::int32_t kind, std::string_view text) {
    CHECK(parser->push(kind).empty());
    CHECK(push(text).empty());
    return parser->push(259);
  };
  constexpr std::int32_t k_open = 257, k_close = 258;
  CHECK(std::get<reasoning_delta>(push("a").at(0)).text == "a");
  CHECK(tag(k_close, "think").empty());
  CHECK(tag(k_open, "tools").empty());
  CHECK(std::get<tool_call_begin>(tag(k_open, "call tool=\"f\"").at(0)).name == "f");
  CHECK(std::get<tool_arguments_delta>(tag(k_open, "argument key=\"k\" type=\"string\"").at(0)).text ==
        "{\"k\": \"");
  CHECK(std::get<tool_arguments_delta>(push("v").at(0)).text == "v");
  CHECK(std::get<tool_arguments_delta>(push("\n").at(0)).text == "\\n");
  CHECK(std::get<tool_arguments_delta>(tag(k_close, "argument").at(0)).text == "\"");
  CHECK(std::get<tool_arguments_delta>(tag(k_open, "argument key=\"n\" type=\"number\"").at(0)).text ==
        ", \"n\": ");
  CHECK(push("12").empty());
  CHECK(std::get<tool_arguments_delta>(tag(k_close, "argument").at(0)).text == "12");
  CHECK(std::get<tool_arguments_delta>(tag(k_close, "call").at(0)).text == "}");
}

}  // namespace weir::engine::text
