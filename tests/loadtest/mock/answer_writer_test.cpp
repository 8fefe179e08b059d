#include "loadtest/mock/answer_writer.hpp"

#include <simdjson.h>

#include <catch2/catch.hpp>

namespace weir::loadtest::mock {
namespace {

// The payloads of whole chunks.
std::vector<std::string> chunks_of(std::string_view bytes) {
  std::vector<std::string> out;
  while (!bytes.empty()) {
    std::size_t digits = 0;
    const auto size = std::stoul(std::string(bytes), &digits, 16);
    REQUIRE(bytes.substr(digits, 2) == "\r\n");
    REQUIRE(bytes.substr(digits + 2 + size, 2) == "\r\n");
    out.emplace_back(bytes.substr(digits + 2, size));
    bytes.remove_prefix(digits + 2 + size + 2);
  }
  return out;
}

std::string text_of(const std::string& event, bool chat) {
  REQUIRE(event.starts_with("data: "));
  REQUIRE(event.ends_with("\n\n"));
  simdjson::dom::parser parser;
  const simdjson::dom::element json = parser.parse(event.substr(6));
  return std::string(
      json.at_pointer(chat ? "/choices/0/delta/content" : "/choices/0/text").get_string().value());
}

TEST_CASE("tokens are numbered and padded, one event a chunk") {
  const bool chat = GENERATE(true, false);
  mock_options options;
  options.token_bytes = 8;
  const answer_writer writer({.chat = chat, .stream = true, .max_tokens = 12, .model = "m"}, options, 1, 2);
  REQUIRE(writer.token_count() == 12);
  CHECK(writer.cut_by_length());
  std::string bytes;
  writer.role(bytes);
  for (std::int64_t i = 0; i < writer.token_count(); ++i) writer.token(i, bytes);
  writer.finish(bytes);
  auto events = chunks_of(bytes);
  if (chat) {
    CHECK(text_of(events.front(), chat).empty());
    events.erase(events.begin());
  }
  REQUIRE(events.size() == 13);
  CHECK(text_of(events[0], chat) == " tok0...");
  CHECK(text_of(events[11], chat) == " tok11..");
  CHECK(events[12].find(R"("finish_reason":"length")") != std::string::npos);
}

TEST_CASE("an echo is the whole text, cut between characters") {
  const std::string text = "na\"ïve \\ \n 漢字 \U0001F600\U0001F600 end";
  mock_options options;
  options.echo = true;
  options.token_bytes = GENERATE(0, 5, 7, 100);
  const answer_writer writer({.stream = true, .text = text}, options, 1, 2);
  std::string bytes;
  for (std::int64_t i = 0; i < writer.token_count(); ++i) writer.token(i, bytes);
  std::string echoed;
  for (const auto& event : chunks_of(bytes)) echoed += text_of(event, true);
  CHECK(echoed == text);
  CHECK_FALSE(writer.cut_by_length());
}

TEST_CASE("usage is an event only where it was asked for") {
  for (const bool wanted : {true, false}) {
    std::string bytes;
    answer_writer({.stream = true, .include_usage = wanted, .prompt_tokens = 3}, {}, 1, 2).usage(bytes);
    REQUIRE(bytes.empty() != wanted);
    if (wanted)
      CHECK(chunks_of(bytes)[0].find(R"("choices":[],"usage":{"prompt_tokens":3)") != std::string::npos);
  }
}

TEST_CASE("a whole answer is JSON padded to its size") {
  mock_options options;
  options.reply_bytes = 1'000;
  simdjson::dom::parser parser;
  const auto body = answer_writer({.model = "m", .prompt_tokens = 8}, options, 1, 2).whole();
  const simdjson::dom::element json = parser.parse(body);
  CHECK(json.at_pointer("/choices/0/message/content").get_string().value().size() == 1'000);
  CHECK(json.at_pointer("/usage/total_tokens").get_int64().value() == 8 + options.tokens);
}

}  // namespace
}  // namespace weir::loadtest::mock
