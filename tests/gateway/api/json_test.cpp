#include "gateway/api/json.hpp"

#include <catch2/catch.hpp>

#include "gateway/api/chat_types.hpp"

namespace weir::gateway::api {

namespace {

// An object around `levels` - 1 arrays.
std::string nested(std::size_t levels) {
  return "{\"a\":" + std::string(levels - 1, '[') + "1" + std::string(levels - 1, ']') + "}";
}

}  // namespace

TEST_CASE("a body is one valid JSON object") {
  struct row {
    const char* name;
    std::string body;
    const char* message;  // null: accepted
  };
  const row rows[] = {
      {"empty object", "{}", nullptr},
      {"spaces around", " {\"a\" : 1}\n", nullptr},
      {"empty", "", "is empty"},
      {"spaces", "  ", "not valid JSON"},
      {"array", "[]", "must be a JSON object"},
      {"number", "1", "must be a JSON object"},
      {"two objects", "{}{}", "not valid JSON"},
      {"cut", "{\"a\":", "not valid JSON"},
      {"trailing comma", "{\"a\":1,}", "not valid JSON"},
      {"comment", "{/**/}", "not valid JSON"},
      {"NaN", "{\"a\":NaN}", "not valid JSON"},
      {"number over double", "{\"a\":1e999}", "a number beyond 64 bits, 1e999, at byte 5"},
      {"400 digits", "{\"a\":" + std::string(400, '9') + "}", "a number beyond 64 bits, 999"},
      {"2^64 behind the largest that fit",
       R"({"a":[18446744073709551615,-9223372036854775808,"18446744073709551616",18446744073709551616]})",
       "a number beyond 64 bits, 18446744073709551616, at byte 71"},
      {"below 64 bits", R"({"a":-9223372036854775809})", "beyond 64 bits, -9223372036854775809, at byte 5"},
      {"leading zero", "{\"a\":01}", "not valid JSON"},
      {"invalid UTF-8 in a value", "{\"a\":\"\xff\"}", "not valid JSON"},
      {"invalid UTF-8 in a key", "{\"\xc3\":1}", "not valid JSON"},
      {"overlong UTF-8", "{\"a\":\"\xc0\xaf\"}", "not valid JSON"},
      {"half a surrogate pair", "{\"a\":\"\\ud800\"}", "half of a surrogate pair, \\ud800, at byte 6"},
      {"the other half", R"({"a":"\ud83d\ude00 \\ud800 \udc00"})",
       "half of a surrogate pair, \\udc00, at byte 27"},
      {"an escape that is cut", R"({"a":"\ud8"})", "not valid JSON"},
      {"control character", "{\"a\":\"\n\"}", "not valid JSON"},
      {"deepest allowed", nested(k_json_depth_max), nullptr},
      {"one deeper", nested(k_json_depth_max + 1), "deeper than 64 levels"},
      {"endless nesting", "{\"a\":" + std::string(1 << 16, '['), "not valid JSON"},
      {"key twice", R"({"a":1,"b":2,"a":1})", "the key 'a' twice"},
      {"key twice, once escaped", R"({"a":1,"\u0061":1})", "the key 'a' twice"},
      {"key twice, inside", R"({"x":[{"y":{"k":1,"k":2}}]})", "the key 'k' twice"},
      {"same key in two objects", R"({"x":{"k":1},"y":{"k":1},"k":1})", nullptr},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto parsed = json_document::parse(r.body);
    INFO((parsed ? "" : parsed.error().message));
    CHECK(parsed.has_value() == (r.message == nullptr));
    if (parsed || r.message == nullptr) continue;
    CHECK(parsed.error().code == errc::bad_request);
    CHECK(parsed.error().message.find(r.message) != std::string::npos);
  }
}

TEST_CASE("an error that quotes the client is valid UTF-8 wherever it is cut") {
  std::string text;  // two bytes a character
  for (int i = 0; i < 40; ++i) text += "\xc3\xa9";
  for (const std::string& word : {text, "x" + text}) {
    const std::string bodies[] = {
        "{\"" + word + "\":1,\"" + word + "\":2}",
        R"({"model":"m","messages":[{"role":"user","content":[{"type":")" + word + "\"}]}]}",
        R"({"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":")" + word + "\"}]}",
    };
    for (const auto& body : bodies) {
      INFO(body);
      const auto parsed = parse_chat_request(body);
      REQUIRE_FALSE(parsed.has_value());
      std::string quoted = "{\"message\":";
      append_quoted(quoted, parsed.error().message);
      CHECK(json_document::parse(quoted + "}").has_value());
    }
  }
}

TEST_CASE("the first fault of a reader stays and has the full path") {
  const auto doc = json_document::parse(R"({"a":"text","b":1,"n":null,"o":{}})");
  REQUIRE(doc);
  field_reader in(doc->root(), "messages[3]");
  std::string text;
  in.text("a", text);
  CHECK(text == "text");
  in.text("n", text);
  in.text("absent", text);
  CHECK(in.ok());
  CHECK(text == "text");
  CHECK_FALSE(in.find("n").has_value());
  bool flag = false;
  in.flag("b", flag);
  in.text("o", text);
  REQUIRE_FALSE(in.ok());
  CHECK(in.first_error()->param == "messages[3].b");
  CHECK(in.first_error()->message == "'messages[3].b' must be true or false");
  field_reader outer(doc->root());
  outer.adopt(in);
  CHECK(outer.first_error()->param == "messages[3].b");
}

TEST_CASE("quoted text parses back to itself") {
  std::string all;
  for (int c = 0; c < 128; ++c) all.push_back(static_cast<char>(c));
  for (const std::string& text :
       {std::string(), all, std::string("\"\\/\n\r\t\0x", 8), std::string("é漢😀")}) {
    std::string json = "{\"t\":";
    append_quoted(json, text);
    const auto doc = json_document::parse(json + "}");
    REQUIRE(doc);
    std::string back;
    field_reader in(doc->root());
    in.text("t", back);
    CHECK(back == text);
  }
}

}  // namespace weir::gateway::api
