#include <catch2/catch.hpp>

#include "gateway/dialects/chat_fixes.hpp"
#include "gateway/dialects/reply_fixes.hpp"
#include "tests/gateway/dialects/stream_run.hpp"

namespace weir::gateway::dialects {

TEST_CASE("a request's text is edited where Moonshot or vLLM take it otherwise, and nowhere else") {
  constexpr chat_fixes k_none;
  const struct {
    const char* name;
    chat_fixes fixes;
    std::string body;
    const char* expected;  // null: nothing to change
  } rows[] = {
      {"nothing asked", k_none, R"({"temperature":1,"max_tokens":2,"messages":[]})", nullptr},
      {"nothing to do", k_moonshot_fixes, R"({"x":1e400,"reasoning_effort":"low","n2":1})", nullptr},
      {"sampling first", k_moonshot_fixes, R"({ "temperature" : 1 , "x":[ ]})", R"({ "x":[ ]})"},
      {"sampling last", k_moonshot_fixes, R"({"x":[ ] , "n":1, "top_p":0.5 })", R"({"x":[ ] })"},
      {"sampling between", k_moonshot_fixes,
       R"({"a":1,"presence_penalty":0,"b":2,"frequency_penalty":0,"temperature":null,"c":3,"n":null})",
       R"({"a":1,"b":2,"c":3})"},
      {"only sampling", k_moonshot_fixes, R"( {"temperature":1, "n" : 1} )", " {} "},
      {"a nested namesake", k_moonshot_fixes, R"({"x":{"n":2,"temperature":1}})", nullptr},
      {"an escaped key", k_moonshot_fixes, R"({"top\u005fp":1,"a":"\"n\":1"})", R"({"a":"\"n\":1"})"},
      {"no effort", k_moonshot_fixes, R"({"reasoning_effort":"none"})", R"({"reasoning_effort":"low"})"},
      {"little effort", k_moonshot_fixes, R"({"reasoning_effort":"minimal"})",
       R"({"reasoning_effort":"low"})"},
      {"medium effort", k_moonshot_fixes, R"({"reasoning_effort": "medium" })",
       R"({"reasoning_effort": "high" })"},
      {"great effort", k_moonshot_fixes, R"({"reasoning_effort":"xhigh"})", R"({"reasoning_effort":"max"})"},
      {"unknown effort", k_moonshot_fixes, R"({"reasoning_effort":"some"})", nullptr},
      {"max_tokens", k_moonshot_fixes, R"({"max_tokens" : 5})", R"({"max_completion_tokens" : 5})"},
      {"both limits", k_moonshot_fixes, R"({"max_tokens":5,"max_completion_tokens":6})",
       R"({"max_completion_tokens":6})"},
      {"thoughts to Moonshot", k_moonshot_fixes,
       R"({"messages":[{"role":"assistant","reasoning" : "h\u00e9","content":null},{"role":"user",)"
       R"("reasoning":"x"}]})",
       R"({"messages":[{"role":"assistant","reasoning_content" : "h\u00e9","content":null},{"role":"user",)"
       R"("reasoning":"x"}]})"},
      {"thoughts under both names", k_moonshot_fixes,
       R"({"messages":[{"role":"assistant","reasoning":"a","reasoning_content":"b"}]})",
       R"({"messages":[{"role":"assistant","reasoning_content":"b"}]})"},
      {"thoughts beside an empty one", k_moonshot_fixes,
       R"({"messages":[{"role":"assistant","reasoning_content":null,"reasoning":"a"}]})",
       R"({"messages":[{"role":"assistant","reasoning_content":"a"}]})"},
      {"no thoughts", k_moonshot_fixes, R"({"messages":[{"role":"assistant","reasoning":null},7]})", nullptr},
      {"thoughts to vLLM", k_vllm_fixes,
       R"({"temperature":1,"messages":[{"reasoning_content":"a","role":"assistant"}]})",
       R"({"temperature":1,"messages":[{"reasoning":"a","role":"assistant"}]})"},
      {"all of it", k_moonshot_fixes,
       R"({"n":1,"max_tokens":5,"messages":[{"role":"assistant","reasoning":"a"}],)"
       R"("reasoning_effort":"none","top_p":1})",
       R"({"max_completion_tokens":5,"messages":[{"role":"assistant","reasoning_content":"a"}],)"
       R"("reasoning_effort":"low"})"},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto fixed = fix_chat_request(r.body, r.fixes);
    REQUIRE(fixed.has_value());
    CHECK(fixed->has_value() == (r.expected != nullptr));
    if (*fixed && r.expected != nullptr) CHECK(**fixed == r.expected);
    if (*fixed) CHECK_FALSE(fix_chat_request(**fixed, r.fixes)->has_value());
  }
}

TEST_CASE("several answers cannot be asked of Moonshot") {
  for (const char* body : {R"({"n":2})", R"({"n":0})", R"({"n":"1"})"}) {
    INFO(body);
    const auto fixed = fix_chat_request(body, k_moonshot_fixes);
    REQUIRE_FALSE(fixed.has_value());
    CHECK(fixed.error().code == errc::unsupported);
    CHECK(fixed.error().param == "n");
    CHECK(fix_chat_request(body, k_vllm_fixes).has_value());
  }
  CHECK_FALSE(fix_chat_request(R"({"n":1,"n":1})", k_moonshot_fixes).has_value());
}

TEST_CASE("Moonshot's replies get what is missing at its standard place") {
  const struct {
    const char* name;
    std::string body;
    const char* expected;  // null: nothing to change
  } rows[] = {
      {"a plain reply", R"({"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":1}})", nullptr},
      {"no JSON", "\"usage\" <html>", nullptr},
      {"cached tokens", R"({"usage":{"prompt_tokens":9, "cached_tokens":8}})",
       R"({"usage":{"prompt_tokens_details":{"cached_tokens":8},"prompt_tokens":9, "cached_tokens":8}})"},
      {"cached tokens beside details", R"({"usage":{"cached_tokens":8,"prompt_tokens_details":{"x":1}}})",
       R"({"usage":{"cached_tokens":8,"prompt_tokens_details":{"cached_tokens":8,"x":1}}})"},
      {"cached tokens beside no details", R"({"usage":{"cached_tokens":8,"prompt_tokens_details":null}})",
       R"({"usage":{"cached_tokens":8,"prompt_tokens_details":{"cached_tokens":8}}})"},
      {"cached tokens in both places",
       R"({"usage":{"cached_tokens":8,"prompt_tokens_details":{"cached_tokens":7}}})", nullptr},
      {"reasoning", R"({"choices":[{"message":{"reasoning_content":"h\u00e9","content":"x"}}]})",
       R"({"choices":[{"message":{"reasoning":"h\u00e9","reasoning_content":"h\u00e9","content":"x"}}]})"},
      {"reasoning already there", R"({"choices":[{"message":{"reasoning_content":"h","reasoning":"i"}}]})",
       nullptr},
      {"reasoning null", R"({"choices":[{"message":{"reasoning_content":"h","reasoning":null}}]})",
       R"({"choices":[{"message":{"reasoning_content":"h","reasoning":"h"}}]})"},
      {"reasoning alone", R"({"choices":[{"message":{"reasoning":"h"}}]})",
       R"({"choices":[{"message":{"reasoning_content":"h","reasoning":"h"}}]})"},
      {"reasoning that is no text", R"({"choices":[{"message":{"reasoning":{"a":1}}}]})", nullptr},
      {"usage within a choice", R"({"id":1,"choices":[{"index":0,"usage":{"cached_tokens":8}}]})",
       R"({"usage":{"prompt_tokens_details":{"cached_tokens":8},"cached_tokens":8},"id":1,)"
       R"("choices":[{"index":0}]})"},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto fixed = fix_chat_reply(r.body);
    CHECK(fixed.has_value() == (r.expected != nullptr));
    if (fixed && r.expected != nullptr) CHECK(*fixed == r.expected);
    if (fixed) CHECK_FALSE(fix_chat_reply(*fixed).has_value());
  }
}

TEST_CASE("Moonshot's streams tell their usage as an event of its own, once") {
  const std::string text = "data: {\"id\":\"a\",\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
  const std::string thought = "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"h\"}}]}\n\n";
  const std::string last =
      "data: {\"id\":\"a\",\"object\":\"o\",\"created\":1,\"model\":\"m\",\"choices\":[{\"delta\":{},"
      "\"finish_reason\":\"stop\",\"usage\":{\"prompt_tokens\":9,\"cached_tokens\":8}}]}\n\n";
  const std::string last_there =
      "data: {\"id\":\"a\",\"object\":\"o\",\"created\":1,\"model\":\"m\",\"choices\":[{\"delta\":{},"
      "\"finish_reason\":\"stop\"}]}\n\n";
  const std::string usage =
      "data: {\"id\":\"a\",\"object\":\"o\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":"
      "{\"prompt_tokens_details\":{\"cached_tokens\":8},\"prompt_tokens\":9,\"cached_tokens\":8}}\n\n";
  const std::string own = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n";
  const std::string done = "data: [DONE]\n\n";
  const struct {
    const char* name;
    std::string events;
    std::string expected;
  } rows[] = {
      {"nothing to fix", text + ": ping\n\n" + own + done, text + ": ping\n\n" + own + done},
      {"other line ends stay", "data:{}\r\n\r\n" + done, "data:{}\r\n\r\n" + done},
      {"thoughts under both names", thought + done,
       "data: {\"choices\":[{\"delta\":{\"reasoning\":\"h\",\"reasoning_content\":\"h\"}}]}\n\n" + done},
      {"usage of the last choice", text + last + done, text + last_there + usage + done},
      {"and an event of its own", last + own + done, last_there + own + done},
      {"without an end", last, last_there + usage},
      {"data in two lines", "data: {\"usage\":\ndata: {\"cached_tokens\":8}}\n\n",
       "data: {\"usage\": {\"prompt_tokens_details\":{\"cached_tokens\":8},\"cached_tokens\":8}}\n\n"},
      {"no JSON", "data: \"usage\" {\n\n", "data: \"usage\" {\n\n"},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    for (std::size_t cut = 0; cut <= r.events.size(); ++cut) {
      fixed_stream stream;
      std::string out = testing::run(stream, r.events, cut);
      stream.end(out);
      if (out != r.expected) CHECK(out == r.expected);
    }
  }
}

}  // namespace weir::gateway::dialects
