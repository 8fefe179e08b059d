#include "gateway/shadow/answer.hpp"

#include <catch2/catch.hpp>

#include "gateway/shadow/agree.hpp"

namespace weir::gateway::shadow {

namespace {

using policy::comparison::likeness;
using std::chrono::milliseconds;

constexpr answer_gatherer::time_point at(int ms) {
  return answer_gatherer::time_point(milliseconds(1000 + ms));
}

std::string chunk(const std::string& delta) {
  return R"(data: {"choices":[{"index":0,"delta":)" + delta + "}]}\n\n";
}

}  // namespace

TEST_CASE("what an answer says is gathered from its events") {
  struct row {
    const char* name;
    std::string events;
    const char* text;
    std::vector<tool_call> calls;
  };
  const row rows[] = {
      {"content",
       chunk(R"({"role":"assistant"})") + chunk(R"({"content":"Nai"})") + chunk(R"({"content":"robi"})") +
           "data: [DONE]\n\n",
       "Nairobi",
       {}},
      {"reasoning is no text", chunk(R"({"reasoning_content":"hm"})") + chunk(R"({"content":"a"})"), "a", {}},
      {"comments and nonsense", ": ping\n\ndata: {\n\n" + chunk(R"({"content":"a"})"), "a", {}},
      {"carriage returns",
       "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\r\n\r\n",
       "a",
       {}},
      {"data over two lines",
       "data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"a\"}}]}\n\n",
       "a",
       {}},
      {"another choice", "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}}]}\n\n", "", {}},
      {"completions", "data: {\"choices\":[{\"index\":0,\"text\":\"abc\"}]}\n\n", "abc", {}},
      {"a call in pieces",
       chunk(R"({"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"a\""}}]})") +
           chunk(R"({"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]})") +
           chunk(R"({"tool_calls":[{"index":1,"function":{"name":"g","arguments":"{}"}}]})"),
       "",
       {{"f", R"({"a":1})"}, {"g", "{}"}}},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    answer_gatherer seen(1000);
    seen.push(r.events, at(0));
    CHECK(seen.found().text == r.text);
    CHECK(seen.found().calls == r.calls);
    CHECK_FALSE(seen.found().cut);
  }
}

TEST_CASE("a whole reply says the same as its events") {
  answer_gatherer seen(1000);
  seen.push_whole(
      R"({"choices":[{"index":0,"message":{"content":"hi","tool_calls":[{"id":"1","function":{"name":"f",)"
      R"("arguments":"{}"}},{"id":"2","function":{"name":"g","arguments":"[1]"}}]}},)"
      R"({"index":1,"message":{"content":"no"}}]})");
  CHECK(seen.found().text == "hi");
  CHECK(seen.found().calls == std::vector<tool_call>{{"f", "{}"}, {"g", "[1]"}});
  answer_gatherer plain(1000);
  plain.push_whole(R"({"choices":[{"index":0,"text":"abc"}]})");
  CHECK(plain.found().text == "abc");
  plain.push_whole("not JSON");
  CHECK(plain.found().text == "abc");
}

TEST_CASE("no more is kept than was allowed") {
  answer_gatherer seen(5);
  seen.push(chunk(R"({"content":"abcd"})") + chunk(R"({"content":"efgh"})"), at(0));
  CHECK(seen.found().text == "abcde");
  CHECK(seen.found().cut);
  answer_gatherer within(4);
  within.push(chunk(R"({"content":"abc\u00e9"})") + chunk(R"({"content":"d"})"), at(0));
  CHECK(within.found().text == "abc");  // nothing behind a gap either
  CHECK(first_bytes("abc\xc3\xa9", 5) == "abc\xc3\xa9");
  CHECK(first_bytes("abc\xc3\xa9", 4) == "abc");
  CHECK(first_bytes("\xc3\xa9", 0).empty());
  answer_gatherer calls(1 << 20);
  calls.push(chunk(R"({"tool_calls":[{"index":4000000000,"function":{"name":"f"}}]})"), at(0));
  CHECK(calls.found().calls.empty());
  CHECK(calls.found().cut);
}

TEST_CASE("pauses between pieces of content") {
  answer_gatherer seen(1000);
  CHECK(seen.median_pause_ns() == -1);
  seen.push(chunk(R"({"role":"assistant"})"), at(0));  // shows nothing
  seen.push(chunk(R"({"content":"a"})"), at(10));
  seen.push(chunk(R"({"content":"b"})") + chunk(R"({"content":"c"})"), at(20));  // came at once: one pause
  seen.push(chunk(R"({"content":"d"})"), at(50));
  seen.push(chunk(R"({"content":"e"})"), at(52));
  seen.push(": ping\n\n", at(99));
  CHECK(seen.events() == 5);
  CHECK(seen.content_time() == milliseconds(42));
  CHECK(seen.median_pause_ns() == 10'000'000);  // of 2, 10 and 30
}

TEST_CASE("answers as JSON") {
  struct row {
    const char* name;
    const char* a;
    const char* b;
    likeness alike;
  };
  const row rows[] = {
      {"no JSON", "hello", "{", likeness::absent},
      {"a number is no answer in JSON", "1", "1", likeness::absent},
      {"the same", R"({"a":[1,"x",null,true]})", R"({"a":[1,"x",null,true]})", likeness::equal},
      {"another order of keys", R"({"a":1,"b":{"c":2,"d":3}})", "{\"b\": {\"d\": 3, \"c\": 2},\n \"a\": 1}",
       likeness::equal},
      {"1 and 1.0", R"([1])", R"([1.0])", likeness::equal},
      {"escapes", R"(["\u0041"])", R"(["A"])", likeness::equal},
      {"in a fence", "```json\n{\"a\":1}\n```", R"({"a":1})", likeness::equal},
      {"in a fence without a name", "```\n[1]\n```\n", "[1]", likeness::equal},
      {"order of a list", "[1,2]", "[2,1]", likeness::different},
      {"longer list", "[1]", "[1,2]", likeness::different},
      {"a key more", R"({"a":1})", R"({"a":1,"b":2})", likeness::different},
      {"another key", R"({"a":1})", R"({"b":1})", likeness::different},
      {"another kind", R"({"a":"1"})", R"({"a":1})", likeness::different},
      {"only one is JSON", R"({"a":1})", "sorry", likeness::different},
      {"a fence that is all", "``````", "[1]", likeness::different},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    CHECK(compare_json(r.a, r.b) == r.alike);
    CHECK(compare_json(r.b, r.a) == r.alike);
  }
  const std::string deep(100'000, '[');
  CHECK(compare_json(deep, deep) == likeness::absent);
}

TEST_CASE("tool calls") {
  struct row {
    const char* name;
    std::vector<tool_call> a, b;
    likeness alike;
  };
  const row rows[] = {
      {"none", {}, {}, likeness::absent},
      {"same", {{"f", "{}"}}, {{"f", "{}"}}, likeness::equal},
      {"order of keys", {{"f", R"({"a":1,"b":2})"}}, {{"f", R"({"b":2, "a":1})"}}, likeness::equal},
      {"other arguments", {{"f", R"({"a":1})"}}, {{"f", R"({"a":2})"}}, likeness::different},
      {"broken arguments, the same", {{"f", "{"}}, {{"f", "{"}}, likeness::equal},
      {"broken arguments", {{"f", "{"}}, {{"f", "{}"}}, likeness::different},
      {"other name", {{"f", "{}"}}, {{"g", "{}"}}, likeness::different},
      {"one more", {{"f", "{}"}}, {{"f", "{}"}, {"g", "{}"}}, likeness::different},
      {"only one calls", {{"f", "{}"}}, {}, likeness::different},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    CHECK(compare_calls(r.a, r.b) == r.alike);
    CHECK(compare_calls(r.b, r.a) == r.alike);
  }
}

TEST_CASE("agreement of two answers") {
  const auto same = agree({.text = "a b c"}, {.text = "a b c"});
  CHECK(same.compared);
  CHECK(same.exact);
  CHECK(same.overlap == 1);
  const auto other = agree({.text = "a b c", .cut = true}, {.text = "a b d e", .calls = {{"f", "{}"}}});
  CHECK_FALSE(other.exact);
  CHECK(other.cut);
  CHECK(other.overlap == 0.571429);  // 4 / 7, to a millionth
  CHECK(other.tools == likeness::different);
}

}  // namespace weir::gateway::shadow
