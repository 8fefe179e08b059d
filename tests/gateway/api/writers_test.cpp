#include <simdjson.h>

#include <catch2/catch.hpp>
#include <limits>

#include "gateway/api/logprobs_json.hpp"
#include "gateway/api/response_writer.hpp"

namespace weir::gateway::api {

namespace {

using engine::text::content_delta;
using engine::text::tool_arguments_delta;
using engine::text::tool_call_begin;

const answer_identity k_identity{"id-1", "the \"model\"", 1700000000};

// The JSON of each event of a stream; "[DONE]" must be the last and is left out.
std::vector<std::string> events_of(std::string_view stream) {
  std::vector<std::string> out;
  while (!stream.empty()) {
    const auto end = stream.find("\n\n");
    REQUIRE(end != std::string_view::npos);
    REQUIRE(stream.starts_with("data: "));
    out.emplace_back(stream.substr(6, end - 6));
    stream.remove_prefix(end + 2);
  }
  REQUIRE_FALSE(out.empty());
  CHECK(out.back() == "[DONE]");
  out.pop_back();
  return out;
}

// The value at a JSON pointer as minified JSON; "(absent)" where there is none.
std::string at(const std::string& json, std::string_view pointer) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  REQUIRE(parser.parse(json).get(root) == simdjson::SUCCESS);
  simdjson::dom::element value;
  return root.at_pointer(pointer).get(value) ? "(absent)" : simdjson::minify(value);
}

choice_event content(int choice, std::string text) {
  return {.choice = choice, .deltas = {content_delta{std::move(text)}}};
}

choice_event end_of(int choice, finish_kind kind) {
  return {.choice = choice, .finish = kind};
}

void check_identity(const std::string& json, const char* object) {
  CHECK(at(json, "/id") == "\"id-1\"");
  CHECK(at(json, "/object") == "\"" + std::string(object) + "\"");
  CHECK(at(json, "/created") == "1700000000");
  CHECK(at(json, "/model") == R"("the \"model\"")");
}

std::vector<choice_event> tool_events() {
  std::vector<choice_event> out;
  out.push_back(content(0, "Let me"));
  out.push_back(
      {.choice = 0, .deltas = {tool_call_begin{0, "functions.f:0", "f"}, tool_arguments_delta{0, "{\"a\""}}});
  out.push_back(
      {.choice = 0, .deltas = {tool_arguments_delta{0, ":1}"}, tool_call_begin{1, "functions.g:1", "g"}}});
  out.push_back(end_of(0, finish_kind::tool_calls));
  return out;
}

std::vector<choice_event> reasoning_events() {
  std::vector<choice_event> out;
  out.push_back({.choice = 0, .deltas = {engine::text::reasoning_delta{"Hm"}}});
  out.push_back({.choice = 0, .deltas = {engine::text::reasoning_delta{" \"so\""}, content_delta{"Yes"}}});
  out.push_back(end_of(0, finish_kind::stop));
  return out;
}

token_detail detail(std::string bytes) {
  return {bytes, -0.5F, {{bytes, -0.5F}, {"\xff", -std::numeric_limits<float>::infinity()}}};
}

}  // namespace

TEST_CASE("chat stream: reasoning under both names") {
  const auto writer = make_chat_writer(k_identity, 1, writer_mode::stream);
  std::string stream;
  for (const auto& event : reasoning_events()) stream += writer->write(event);
  const auto events = events_of(stream + writer->finish({1, 2}));
  REQUIRE(events.size() == 5);
  for (const char* key : {"/choices/0/delta/reasoning_content", "/choices/0/delta/reasoning"}) {
    CHECK(at(events[0], key) == "(absent)");
    CHECK(at(events[1], key) == "\"Hm\"");
    CHECK(at(events[2], key) == R"(" \"so\"")");
    CHECK(at(events[3], key) == "(absent)");
  }
  CHECK(at(events[1], "/choices/0/delta/content") == "(absent)");
  CHECK(at(events[3], "/choices/0/delta/content") == "\"Yes\"");
}

TEST_CASE("chat body: reasoning under both names, and only where there is some") {
  for (const bool thought : {true, false}) {
    const auto writer = make_chat_writer(k_identity, 1, writer_mode::body);
    if (thought) {
      for (const auto& event : reasoning_events()) writer->write(event);
    } else {
      writer->write(content(0, "Yes"));
    }
    const std::string body = writer->finish({1, 2});
    const std::string expected = thought ? R"("Hm \"so\"")" : "(absent)";
    CHECK(at(body, "/choices/0/message/reasoning_content") == expected);
    CHECK(at(body, "/choices/0/message/reasoning") == expected);
    CHECK(at(body, "/choices/0/message/content") == "\"Yes\"");
  }
}

TEST_CASE("chat stream: role first, text, finish, usage") {
  const auto writer = make_chat_writer(k_identity, 2, writer_mode::stream_with_usage);
  std::string stream = writer->write(content(1, "b\n"));
  stream += writer->write(content(0, "a"));
  stream += writer->write(end_of(1, finish_kind::length));
  stream += writer->write(end_of(0, finish_kind::stop));
  stream += writer->finish({.prompt_tokens = 3, .completion_tokens = 4});
  const auto events = events_of(stream);
  REQUIRE(events.size() == 7);
  for (const auto& e : events) check_identity(e, "chat.completion.chunk");
  for (std::size_t i = 0; i < 6; ++i) CHECK(at(events[i], "/usage") == "null");
  for (const std::size_t i : {0U, 2U}) {
    CHECK(at(events[i], "/choices/0/delta") == R"({"role":"assistant","content":"","refusal":null})");
    CHECK(at(events[i], "/choices/0/finish_reason") == "null");
  }
  CHECK(at(events[0], "/choices/0/index") == "1");
  CHECK(at(events[1], "/choices/0/delta") == R"({"content":"b\n"})");
  CHECK(at(events[3], "/choices/0/index") == "0");
  CHECK(at(events[4], "/choices/0/finish_reason") == "\"length\"");
  CHECK(at(events[4], "/choices/0/delta") == "{}");
  CHECK(at(events[5], "/choices/0/finish_reason") == "\"stop\"");
  CHECK(at(events[6], "/choices") == "[]");
  CHECK(at(events[6], "/usage") == R"({"prompt_tokens":3,"completion_tokens":4,"total_tokens":7})");
  CHECK(usage_json({.prompt_tokens = 3, .completion_tokens = 4, .cached_tokens = 2}) ==
        R"("usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,)"
        R"("prompt_tokens_details":{"cached_tokens":2}})");
}

TEST_CASE("chat stream: an empty answer has role and finish, and no usage unless asked") {
  const auto writer = make_chat_writer(k_identity, 1, writer_mode::stream);
  std::string stream = writer->write(end_of(0, finish_kind::stop));
  stream += writer->finish({1, 0});
  const auto events = events_of(stream);
  REQUIRE(events.size() == 2);
  CHECK(at(events[0], "/choices/0/delta/role") == "\"assistant\"");
  CHECK(at(events[1], "/choices/0/finish_reason") == "\"stop\"");
  CHECK(at(events[1], "/usage") == "(absent)");
}

TEST_CASE("chat stream: tool calls") {
  const auto writer = make_chat_writer(k_identity, 1, writer_mode::stream);
  std::string stream;
  for (const auto& e : tool_events()) stream += writer->write(e);
  stream += writer->finish({1, 1});
  const auto events = events_of(stream);
  REQUIRE(events.size() == 7);
  const std::string begin = R"({"tool_calls":[{"index":0,"id":"functions.f:0","type":"function",)"
                            R"("function":{"name":"f","arguments":""}}]})";
  CHECK(at(events[2], "/choices/0/delta") == begin);
  CHECK(at(events[3], "/choices/0/delta") ==
        R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]})");
  CHECK(at(events[5], "/choices/0/delta/tool_calls/0/index") == "1");
  CHECK(at(events[6], "/choices/0/finish_reason") == "\"tool_calls\"");
}

TEST_CASE("chat stream: each token's logprobs appear once, also while its text is held back") {
  const auto writer = make_chat_writer(k_identity, 1, writer_mode::stream);
  std::string stream = writer->write({.choice = 0, .tokens = {detail("\xc3")}});
  auto two = content(0, "é");
  two.deltas.emplace_back(content_delta{"x"});
  two.tokens = {detail("\xa9"), detail("x")};
  stream += writer->write(two);
  stream += writer->finish({1, 3});
  const auto events = events_of(stream);
  REQUIRE(events.size() == 4);
  CHECK(at(events[0], "/choices/0/logprobs") == "null");
  CHECK(at(events[1], "/choices/0/delta") == "{}");
  CHECK(at(events[1], "/choices/0/logprobs/content/0/token") == "\"\xEF\xBF\xBD\"");
  CHECK(at(events[1], "/choices/0/logprobs/content/0/bytes") == "[195]");
  CHECK(at(events[1], "/choices/0/logprobs/refusal") == "null");
  CHECK(at(events[2], "/choices/0/logprobs/content/1/bytes") == "[120]");
  CHECK(at(events[2], "/choices/0/logprobs/content/1/top_logprobs/0/logprob") == "-0.5");
  CHECK(at(events[2], "/choices/0/logprobs/content/1/top_logprobs/1/bytes") == "[255]");
  CHECK(std::stod(at(events[2], "/choices/0/logprobs/content/1/top_logprobs/1/logprob")) == -9999.0);
  CHECK(at(events[3], "/choices/0/logprobs") == "null");
}

TEST_CASE("chat body: choices, tool calls, usage") {
  const auto writer = make_chat_writer(k_identity, 2, writer_mode::body);
  for (const auto& e : tool_events()) CHECK(writer->write(e).empty());
  CHECK(writer->write(content(1, "one ")).empty());
  auto last = content(1, "two");
  last.tokens = {detail("two")};
  last.finish = finish_kind::length;
  CHECK(writer->write(last).empty());
  const std::string body = writer->finish({.prompt_tokens = 5, .completion_tokens = 2});
  check_identity(body, "chat.completion");
  CHECK(at(body, "/choices/0/message/role") == "\"assistant\"");
  CHECK(at(body, "/choices/0/message/content") == "\"Let me\"");
  CHECK(at(body, "/choices/0/message/refusal") == "null");
  CHECK(at(body, "/choices/0/message/tool_calls/0") ==
        R"({"id":"functions.f:0","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}})");
  CHECK(at(body, "/choices/0/message/tool_calls/1/function/arguments") == "\"\"");
  CHECK(at(body, "/choices/0/logprobs") == "null");
  CHECK(at(body, "/choices/0/finish_reason") == "\"tool_calls\"");
  CHECK(at(body, "/choices/1/index") == "1");
  CHECK(at(body, "/choices/1/message/content") == "\"one two\"");
  CHECK(at(body, "/choices/1/message/tool_calls") == "(absent)");
  CHECK(at(body, "/choices/1/logprobs/content/0/token") == "\"two\"");
  CHECK(at(body, "/choices/1/finish_reason") == "\"length\"");
  CHECK(at(body, "/usage/total_tokens") == "7");
}

TEST_CASE("chat body: content is null only beside tool calls") {
  const auto calls = make_chat_writer(k_identity, 1, writer_mode::body);
  calls->write({.choice = 0, .deltas = {tool_call_begin{0, "i", "f"}}, .finish = finish_kind::tool_calls});
  CHECK(at(calls->finish({}), "/choices/0/message/content") == "null");
  const auto silent = make_chat_writer(k_identity, 1, writer_mode::body);
  silent->write(end_of(0, finish_kind::stop));
  CHECK(at(silent->finish({}), "/choices/0/message/content") == "\"\"");
}

TEST_CASE("completion stream: echo once, logprobs with offsets, usage") {
  const auto writer = make_completion_writer(k_identity, 2, writer_mode::stream_with_usage, {"P:", "Q:"});
  auto first = content(0, "é");
  first.tokens = {detail("é")};
  auto second = content(0, "b");
  second.tokens = {detail("b")};
  std::string stream = writer->write(first);
  stream += writer->write(second);
  stream += writer->write(end_of(1, finish_kind::stop));
  CHECK(writer->write({.choice = 1}).empty());
  stream += writer->finish({2, 2});
  const auto events = events_of(stream);
  REQUIRE(events.size() == 4);
  for (const auto& e : events) check_identity(e, "text_completion");
  CHECK(at(events[0], "/choices/0/text") == "\"P:é\"");
  CHECK(at(events[0], "/choices/0/logprobs/text_offset") == "[0]");
  CHECK(at(events[0], "/choices/0/logprobs/tokens") == "[\"é\"]");
  CHECK(at(events[0], "/choices/0/logprobs/top_logprobs/0/é") == "-0.5");
  CHECK(at(events[1], "/choices/0/text") == "\"b\"");
  CHECK(at(events[1], "/choices/0/logprobs/text_offset") == "[1]");
  CHECK(at(events[1], "/choices/0/finish_reason") == "null");
  CHECK(at(events[2], "/choices/0/text") == "\"Q:\"");
  CHECK(at(events[2], "/choices/0/finish_reason") == "\"stop\"");
  CHECK(at(events[2], "/usage") == "null");
  CHECK(at(events[3], "/choices") == "[]");
  CHECK(at(events[3], "/usage/total_tokens") == "4");
}

TEST_CASE("completion body: every choice with echo and finish") {
  const auto writer = make_completion_writer(k_identity, 2, writer_mode::body, {"P:", "Q:"});
  writer->write(content(1, "y"));
  writer->write(end_of(1, finish_kind::length));
  writer->write(content(0, "x"));
  writer->write(end_of(0, finish_kind::stop));
  const std::string body = writer->finish({2, 2});
  check_identity(body, "text_completion");
  CHECK(at(body, "/choices/0") == R"({"index":0,"text":"P:x","logprobs":null,"finish_reason":"stop"})");
  CHECK(at(body, "/choices/1") == R"({"index":1,"text":"Q:y","logprobs":null,"finish_reason":"length"})");
  CHECK(at(body, "/usage/prompt_tokens") == "2");
}

TEST_CASE("invalid UTF-8 becomes U+FFFD, the rest stays") {
  const std::pair<std::string, std::string> rows[] = {
      {"", ""},
      {"aé😀", "aé😀"},
      {"\xff", "\xEF\xBF\xBD"},
      {"a\xc3", "a\xEF\xBF\xBD"},
      {"\xa9z", "\xEF\xBF\xBDz"},
      {"\xed\xa0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
  };
  for (const auto& [bytes, text] : rows) CHECK(valid_utf8(bytes) == text);
}

}  // namespace weir::gateway::api
