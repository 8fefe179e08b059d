#include "gateway/relay/event_inspector.hpp"

#include <catch2/catch.hpp>
#include <string>

namespace weir::gateway::relay {
namespace {

std::string nested(std::size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

event_facts inspect_json(const std::string& json) {
  event_inspector inspector;
  return inspector.inspect("data: " + json + "\n\n");
}

}  // namespace

TEST_CASE("what an event is") {
  using enum event_kind;
  struct row {
    const char* name;
    std::string event;
    event_kind what;
  };
  const std::string text = R"({"choices":[{"delta":{"content":"x"}}]})";
  const row rows[] = {
      {"a comment", ": ping\n\n", comment},
      {"a blank line", "\n", comment},
      {"a retry", "retry: 100\n\n", comment},
      {"a name without data", "event: x\nid: 1\n\n", comment},
      {"a field that begins with data", "database: {}\n\n", comment},
      {"data in upper case", "DATA: {}\n\n", comment},
      {"done", "data: [DONE]\n\n", done},
      {"done without a space", "data:[DONE]\r\n\r\n", done},
      {"done with other fields", "id: 7\ndata: [DONE]\nevent: x\n\n", done},
      {"content", "data: " + text + "\n\n", content},
      {"no space after the colon", "data:" + text + "\n\n", content},
      {"CR", "data: " + text + "\r\r", content},
      {"CRLF", "data: " + text + "\r\n\r\n", content},
      {"the LF of the event before", "\ndata: " + text + "\r\n\r\n", content},
      {"byte order mark",
       "\xEF\xBB\xBF"
       "data: " +
           text + "\n\n",
       content},
      {"named, with a comment", ": x\nevent: message\ndata: " + text + "\nid: 3\n\n", content},
      {"on several lines", "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\r\ndata:\"x\"}}]}\n\n",
       content},
      {"no data in the data", "data:\n\n", nonsense},
      {"data without a colon", "data\n\n", nonsense},
      {"text", "data: hello\n\n", nonsense},
      {"two spaces and done", "data:  [DONE]\n\n", nonsense},
      {"an array", "data: []\n\n", nonsense},
      {"cut JSON", "data: {\"choices\":[\n\n", nonsense},
      {"two objects", "data: {}\ndata: {}\n\n", nonsense},
      {"bad UTF-8", "data: {\"a\":\"\xff\"}\n\n", nonsense},
      {"nesting without end", "data: {\"a\":" + std::string(100'000, '[') + "\n\n", nonsense},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    event_inspector inspector;
    CHECK(inspector.inspect(r.event).what == r.what);
    // What an inspector saw before changes nothing, nor does what stands behind the event.
    const std::string more = r.event + "data: [DONE]";
    CHECK(inspector.inspect(std::string_view(more).substr(0, r.event.size())).what == r.what);
  }
}

TEST_CASE("what a client would show is content") {
  using enum event_kind;
  struct row {
    const char* json;
    event_kind what;
    bool finished;
  };
  const row rows[] = {
      {R"({})", preamble, false},
      {R"({"choices":null})", preamble, false},
      {R"({"choices":[]})", preamble, false},
      {R"({"choices":{}})", preamble, false},
      {R"({"choices":[null,7,"x"]})", preamble, false},
      {R"({"choices":[{}]})", preamble, false},
      {R"({"choices":[{"delta":{"role":"assistant"}}]})", preamble, false},
      {R"({"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]})", preamble, false},
      {R"({"choices":[{"delta":{"content":null,"tool_calls":[],"x":{},"refusal":false}}]})", preamble, false},
      {R"({"choices":[{"delta":null,"text":null}]})", preamble, false},
      {R"({"choices":[{"text":""}],"usage":null})", preamble, false},
      {R"({"choices":[{"index":0,"text":"a"}]})", content, false},
      {R"({"choices":[{"delta":{"content":" "}}]})", content, false},
      {R"({"choices":[{"delta":{"reasoning_content":"hm"}}]})", content, false},
      {R"({"choices":[{"delta":{"reasoning":"hm","content":null}}]})", content, false},
      {R"({"choices":[{"delta":{"refusal":"no"}}]})", content, false},
      {R"({"choices":[{"delta":{"vendor":true}}]})", content, false},
      {R"({"choices":[{"delta":{"vendor":0}}]})", content, false},
      {R"({"choices":[{"delta":{}},{"delta":{"content":"second"}}]})", content, false},
      {R"({"choices":[{"delta":{},"finish_reason":"stop"}]})", content, true},
      {R"({"choices":[{"finish_reason":"length"},{"delta":{"role":"assistant"}}]})", content, true},
      // C1, C4: a follow-up without an id, a call without an index.
      {R"({"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]})", content,
       false},
      {R"({"choices":[{"delta":{"tool_calls":[{"id":"c","function":{"name":"f"}}]}}]})", content, false},
      {R"({"error":null,"choices":[{"text":"a"}]})", content, false},
  };
  for (const auto& r : rows) {
    INFO(r.json);
    const auto facts = inspect_json(r.json);
    CHECK(facts.what == r.what);
    CHECK((facts.finished_choices != 0) == r.finished);
    CHECK_FALSE(facts.usage.has_value());
  }
}

TEST_CASE("usage is read wherever it stands") {
  using enum event_kind;
  struct row {
    const char* name;
    const char* json;
    event_kind what;
    std::int64_t prompt;
    std::int64_t completion;
    std::int64_t cached;
  };
  const row rows[] = {
      {"D2: no choice",
       R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}})", usage, 7, 2,
       -1},
      {"no choices at all", R"({"usage":{"prompt_tokens":7,"completion_tokens":2}})", usage, 7, 2, -1},
      {"choices null", R"({"choices":null,"usage":{"prompt_tokens":7,"completion_tokens":2}})", usage, 7, 2,
       -1},
      {"D2: an element among the choices", R"({"choices":[{"delta":{}}],"usage":{"prompt_tokens":7}})",
       preamble, 7, -1, -1},
      {"D9: with content", R"({"choices":[{"delta":{"content":"x"}}],"usage":{"completion_tokens":1}})",
       content, -1, 1, -1},
      {"Moonshot: within a choice",
       R"({"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":5,"completion_tokens":3,)"
       R"("cached_tokens":4}}]})",
       content, 5, 3, 4},
      {"details",
       R"({"choices":[],"usage":{"prompt_tokens":5,"cached_tokens":1,)"
       R"("prompt_tokens_details":{"cached_tokens":2}}})",
       usage, 5, -1, 2},
      {"details null", R"({"choices":[],"usage":{"prompt_tokens":5,"prompt_tokens_details":null}})", usage, 5,
       -1, -1},
      {"below zero and of other types",
       R"({"choices":[],"usage":{"prompt_tokens":-5,"completion_tokens":"3","cached_tokens":null}})", usage,
       -1, -1, -1},
      {"over 64 bits",
       R"({"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":99999999999999999999999}})", usage, 5,
       -1, -1},
      {"whole numbers with a fraction of nothing",
       R"({"choices":[],"usage":{"prompt_tokens":5.0,"completion_tokens":3e1}})", usage, 5, 30, -1},
      {"a part of a token", R"({"choices":[],"usage":{"prompt_tokens":5.5,"completion_tokens":0}})", usage,
       -1, 0, -1},
      {"more than any answer holds",
       R"({"choices":[],"usage":{"prompt_tokens":100000000,"completion_tokens":100000001}})", usage,
       100'000'000, -1, -1},
      {"1e18 and 2^64-1",
       R"({"choices":[],"usage":{"prompt_tokens":1e18,"completion_tokens":18446744073709551615}})", usage, -1,
       -1, -1},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto facts = inspect_json(r.json);
    CHECK(facts.what == r.what);
    REQUIRE(facts.usage.has_value());
    CHECK(facts.usage->prompt_tokens == r.prompt);
    CHECK(facts.usage->completion_tokens == r.completion);
    CHECK(facts.usage->cached_tokens == r.cached);
  }
}

TEST_CASE("choices that show something are counted, those that only end or begin are not") {
  CHECK(inspect_json(R"({"choices":[{"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]})")
            .shown_choices == 2);
  CHECK(inspect_json(R"({"choices":[{"delta":{"content":""}},{"index":1,"text":"b"}]})").shown_choices == 1);
  CHECK(inspect_json(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})").shown_choices == 0);
  CHECK(inspect_json(R"({"choices":[{"delta":{"role":"assistant"}}]})").shown_choices == 0);
}

TEST_CASE("the texts of a reply are counted where its usage does not say what they took") {
  struct row {
    const char* name;
    const char* json;
    std::int64_t bytes;
  };
  const row rows[] = {
      {"no usage", R"({"choices":[{"message":{"role":"assistant","content":"hello"}}]})", 5},
      {"usage without completion", R"({"choices":[{"text":"hello"}],"usage":{"prompt_tokens":3}})", 5},
      {"usage of nothing", R"({"choices":[{"text":"hello"}],"usage":{"completion_tokens":0}})", 5},
      {"told", R"({"choices":[{"text":"hello"}],"usage":{"completion_tokens":2}})", 0},
      {"choices", R"({"choices":[{"text":"ab"},null,{"text":null},{"text":"c"}]})", 3},
      {"calls and thoughts",
       R"({"choices":[{"message":{"reasoning_content":"hm","content":null,"tool_calls":)"
       R"([{"function":{"name":"f","arguments":"{}"}}]}}]})",
       5},
      {"nothing", R"({"object":"chat.completion","choices":{}})", 0},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    event_inspector inspector;
    const auto reply = inspector.inspect_reply(r.json);
    REQUIRE(reply.has_value());
    CHECK(reply->content_bytes == r.bytes);
  }
}

TEST_CASE("errors of every shape") {
  struct row {
    const char* json;
    int status;
    const char* message;
    const char* code = "";
  };
  const row rows[] = {
      {R"({"error":{"message":"m","type":"t","code":400}})", 400, "m"},
      {R"({"error":{"message":"m","code":"429"}})", 429, "m", "429"},
      {R"({"error":{"message":"m","code":"rate_limit_exceeded"}})", 0, "m", "rate_limit_exceeded"},
      {R"({"error":{"message":"m","code":null,"status":503}})", 503, "m"},
      {R"({"error":{"message":"m","code":"x","status_code":404}})", 404, "m", "x"},
      {R"({"error":{"message":"m","code":200}})", 0, "m"},
      {R"({"error":{"message":"m","code":"400 "}})", 0, "m", "400 "},
      {R"({"error":{"message":"m","code":123456789012345678901234567890}})", 0, "m"},
      {R"({"error":{"message":7}})", 0, ""},
      {R"({"error":"plain"})", 0, "plain"},
      {R"({"error":true})", 0, ""},
      {R"({"error":{"message":"m"},"choices":[{"delta":{"content":"x"}}]})", 0, "m"},
  };
  for (const auto& r : rows) {
    INFO(r.json);
    const auto facts = inspect_json(r.json);
    CHECK(facts.what == event_kind::error);
    CHECK(facts.error_status == r.status);
    CHECK(facts.error_message == r.message);
    CHECK(facts.error_code == r.code);
  }
  std::string message = "x";  // a long message is cut, and within a character
  for (int i = 0; i < 2000; ++i) message += "\xc3\xa9";
  const auto facts = inspect_json(R"({"error":{"message":")" + message + "\"}}");
  CHECK(facts.error_message == message.substr(0, 2047) + "\xEF\xBF\xBD");
}

TEST_CASE("numbers of any size and deep values pass") {
  const std::string rest = R"(,"choices":[{"delta":{"content":"x"}}]})";
  CHECK(inspect_json(R"({"seed":123456789012345678901234567890)" + rest).what == event_kind::content);
  CHECK(inspect_json(R"({"created":1e999)" + rest).what == event_kind::content);
  CHECK(inspect_json("{\"a\":" + std::string(400, '9') + rest).what == event_kind::content);
  CHECK(inspect_json("{\"a\":" + nested(500) + rest).what == event_kind::content);
  CHECK(inspect_json("{\"a\":-" + rest).what == event_kind::nonsense);
  CHECK(inspect_json("{\"a\":01234567890123456789" + rest).what == event_kind::nonsense);
  // One event over what is kept between two, and the next one.
  event_inspector inspector;
  const std::string large(3 << 20, 'y');
  CHECK(inspector.inspect(R"(data: {"choices":[{"text":")" + large + "\"}]}\n\n").what ==
        event_kind::content);
  CHECK(inspector.inspect("data: " + large + "\n\n").what == event_kind::nonsense);
  CHECK(inspector.inspect("data: {\"choices\":[{\"text\":\"x\"}]}\n\n").what == event_kind::content);
}

TEST_CASE("a whole reply is one JSON object") {
  event_inspector inspector;
  const auto reply = inspector.inspect_reply(
      R"({"choices":[],"seed":1e999,"usage":{"prompt_tokens":3,"completion_tokens":4}})");
  REQUIRE(reply.has_value());
  CHECK(reply->usage.prompt_tokens == 3);
  CHECK(reply->usage.completion_tokens == 4);
  const auto bare = inspector.inspect_reply("{}");
  REQUIRE(bare.has_value());
  CHECK(bare->usage.prompt_tokens == 0);
  for (const char* body : {"", "null", "[]", "<html>", "{", "{}{}", "{\"a\":01e5}", "data: {}"}) {
    INFO(body);
    CHECK_FALSE(inspector.inspect_reply(body).has_value());
  }
}

}  // namespace weir::gateway::relay
