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

std::expected<completion_ask, std::string> parse_prompt(std::string body, bool chat = false) {
  simdjson::ondemand::parser parser;
  body.reserve(body.size() + simdjson::SIMDJSON_PADDING);
  return parse_completion(parser, body, chat, {.prompt = true});
}

TEST_CASE("a prompt's tokens are read, as ids or out of its text") {
  const auto ids =
      parse_prompt(R"({"cache_salt":"s","prompt":[0,5,2147483647],"weir_checkpoint_at":[64,0],"model":"m"})");
  REQUIRE(ids);
  CHECK(ids->prompt == std::vector<std::int32_t>{0, 5, 2147483647});
  CHECK(ids->prompt_tokens == 3);
  CHECK(ids->cache_salt == "s");
  CHECK(ids->checkpoint_at == std::vector<std::int64_t>{64, 0});
  const auto text = parse_prompt(R"({"prompt":"abcde","cache_salt":null,"weir_checkpoint_at":null})");
  REQUIRE(text);
  CHECK(text->prompt == std::vector<std::int32_t>{0x64636261, 0x65});
  const auto chat =
      parse_prompt(R"({"messages":[{"content":[{"text":"b"},{"text":"c"}],"role":"a"}]})", true);
  REQUIRE(chat);
  CHECK(chat->prompt == std::vector<std::int32_t>{0x63620a61, 0x0a});
  CHECK(chat->text.empty());
}

TEST_CASE("what is no prompt is refused") {
  const auto* body =
      GENERATE(R"({"prompt":[]})", R"({"prompt":""})", R"({"prompt":[-1]})", R"({"prompt":[2147483648]})",
               R"({"prompt":[1.5]})", R"({"prompt":["a"]})", R"({"prompt":[[1]]})", R"({"prompt":null})",
               R"({"cache_salt":"s"})", R"({"prompt":[1],"weir_checkpoint_at":[-1]})",
               R"({"prompt":[1],"weir_checkpoint_at":["x"]})");
  INFO(body);
  CHECK_FALSE(parse_prompt(body));
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
