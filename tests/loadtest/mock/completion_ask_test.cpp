#include "loadtest/mock/completion_ask.hpp"

#include <catch2/catch.hpp>

namespace weir::loadtest::mock {
namespace {

std::expected<completion_ask, std::string> parse(std::string body, bool chat = true) {
  simdjson::ondemand::parser parser;
  body.reserve(body.size() + simdjson::SIMDJSON_PADDING);
  return parse_completion(parser, body, chat, {.text = true});
}

TEST_CASE("a chat request is read") {
  const auto ask =
      parse(R"({"unknown":{"stream":[1,{}]},"model":"a\"b","max_completion_tokens":7,"stream":true,
    "messages":[{"content":"first","role":"user"},{"role":"user","content":[{"type":"text","text":"p1"},
    {"type":"image_url","image_url":{}},{"text":"p2"}]},{"role":"assistant","content":null}],
    "stream_options":{"x":1,"include_usage":true},"mock_fault":"no-done","n":1})");
  REQUIRE(ask);
  CHECK(ask->model == "a\"b");
  CHECK(ask->max_tokens == 7);
  CHECK(ask->stream);
  CHECK(ask->include_usage);
  CHECK(ask->text == "p1p2");
  CHECK(ask->fault == "no-done");
}

TEST_CASE("null means absent") {
  const auto ask =
      parse(R"({"prompt":"x","max_tokens":null,"stream":null,"stream_options":null,"n":null})", false);
  REQUIRE(ask);
  CHECK_FALSE(ask->max_tokens);
  CHECK_FALSE(ask->stream);
  CHECK_FALSE(ask->include_usage);
  CHECK(ask->text == "x");
}

TEST_CASE("what is no completion request is refused") {
  const auto* body =
      GENERATE("", "[]", "{", R"({"messages":[]} x)", R"({"model":"m"})", R"({"messages":[],"n":2})",
               R"({"messages":[],"max_tokens":0})", R"({"messages":[],"max_tokens":"1"})");
  INFO(body);
  CHECK_FALSE(parse(body));
}

}  // namespace
}  // namespace weir::loadtest::mock
