#include "gateway/dialects/to_messages_request.hpp"

#include <catch2/catch.hpp>

namespace weir::gateway::dialects {

namespace {

// A body around `members`, which begin with a comma, with one message of a user.
std::string chat(const std::string& members) {
  return R"({"model":"m","messages":[{"role":"user","content":"hi"}])" + members + '}';
}

std::string messages(const std::string& members, const std::string& max_tokens = "4096") {
  return R"({"model":"claude","max_tokens":)" + max_tokens +
         R"(,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}])" + members + '}';
}

constexpr messages_target k_target{.model = "claude"};

}  // namespace

TEST_CASE("a chat request's parameters as those of a messages request") {
  const struct {
    const char* name;
    std::string body;
    std::string expected;
  } rows[] = {
      {"the least", chat(""), messages("")},
      {"max_tokens", chat(R"(,"max_tokens":7)"), messages("", "7")},
      {"the newer name wins", chat(R"(,"max_completion_tokens":8,"max_tokens":7)"), messages("", "8")},
      {"sampling", chat(R"(,"temperature":0.5,"top_p":0.25,"top_k":40)"),
       messages(R"(,"temperature":0.5,"top_p":0.25,"top_k":40)")},
      {"hotter than they go, and a top_p that says nothing", chat(R"(,"temperature":1.7,"top_p":1)"),
       messages(R"(,"temperature":1)")},
      {"top_k off", chat(R"(,"top_k":-1)"), messages("")},
      {"one stop", chat(R"(,"stop":"END")"), messages(R"(,"stop_sequences":["END"])")},
      {"several stops, an empty one", chat(R"(,"stop":["a","","\n"])"),
       messages(R"(,"stop_sequences":["a","\n"])")},
      {"no stops", chat(R"(,"stop":[])"), messages("")},
      {"stream", chat(R"(,"stream":true,"stream_options":{"include_usage":true})"),
       messages(R"(,"stream":true)")},
      {"user", chat(R"(,"user":"u-1")"), messages(R"(,"metadata":{"user_id":"u-1"})")},
      {"safety_identifier before user", chat(R"(,"user":"u-1","safety_identifier":"s-1")"),
       messages(R"(,"metadata":{"user_id":"s-1"})")},
      {"effort", chat(R"(,"reasoning_effort":"high","temperature":0.5)"),
       messages(R"(,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"})")},
      {"no effort", chat(R"(,"reasoning_effort":"none")"), messages(R"(,"thinking":{"type":"disabled"})")},
      {"a schema",
       chat(R"(,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"a":1e400}}})"),
       messages(R"(,"output_config":{"format":{"type":"json_schema","schema":{"a":1e400}}})")},
      {"text format, one answer, nulls",
       chat(R"(,"response_format":{"type":"text"},"n":1,"tools":null,"stop":null,"logit_bias":{})"),
       messages("")},
      {"what changes no kind of answer is left out",
       chat(R"(,"seed":1,"presence_penalty":1,"store":true,"service_tier":"flex","x":{"y":[]})"),
       messages("")},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto out = to_messages_request(r.body, k_target);
    INFO((out ? std::string() : out.error().message));
    REQUIRE(out.has_value());
    CHECK(*out == r.expected);
  }
}

TEST_CASE("tools and their choice") {
  const std::string tool = R"({"type":"function","function":{"name":"f","parameters":{"type":"object"}}})";
  const std::string tools = R"(,"tools":[)" + tool + ']';
  const std::string there = R"(,"tools":[{"name":"f","input_schema":{"type":"object"}}])";
  const struct {
    const char* name;
    std::string body;
    std::string expected;
  } rows[] = {
      {"a tool", chat(tools), messages(there)},
      {"all of a tool, numbers as written",
       chat(R"(,"tools":[{"type":"function","function":{"name":"f","description":"d","strict":true,)"
            R"("parameters":{"type":"object","x":99999999999999999999, "y":1.0}},)"
            R"("cache_control":{"type":"e"}}])"),
       messages(R"(,"tools":[{"name":"f","description":"d","input_schema":)"
                R"({"type":"object","x":99999999999999999999, "y":1.0},"strict":true,)"
                R"("cache_control":{"type":"e"}}])")},
      {"without parameters, or a type of them",
       chat(R"(,"tools":[{"type":"function","function":{"name":"f"}},)"
            R"({"type":"function","function":{"name":"g","parameters":{"x":1}}},)"
            R"({"type":"function","function":{"name":"h","parameters":{}}}])"),
       messages(R"(,"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}},)"
                R"({"name":"g","input_schema":{"type":"object","x":1}},)"
                R"({"name":"h","input_schema":{"type":"object"}}])")},
      {"auto", chat(tools + R"(,"tool_choice":"auto")"),
       messages(there + R"(,"tool_choice":{"type":"auto"})")},
      {"none", chat(tools + R"(,"tool_choice":"none","parallel_tool_calls":false)"),
       messages(there + R"(,"tool_choice":{"type":"none"})")},
      {"required", chat(tools + R"(,"tool_choice":"required")"),
       messages(there + R"(,"tool_choice":{"type":"any"})")},
      {"named, one at a time",
       chat(tools +
            R"(,"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false)"),
       messages(there + R"(,"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true})")},
      {"one at a time", chat(tools + R"(,"parallel_tool_calls":false)"),
       messages(there + R"(,"tool_choice":{"type":"auto","disable_parallel_tool_use":true})")},
      {"many at a time", chat(tools + R"(,"parallel_tool_calls":true)"), messages(there)},
      {"a choice among none", chat(R"(,"tool_choice":"auto","tools":[])"), messages("")},
      {"forced tools do not think", chat(tools + R"(,"tool_choice":"required","reasoning_effort":"low")"),
       messages(there + R"(,"tool_choice":{"type":"any"},"output_config":{"effort":"low"})")},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto out = to_messages_request(r.body, k_target);
    INFO((out ? std::string() : out.error().message));
    REQUIRE(out.has_value());
    CHECK(*out == r.expected);
  }
}

TEST_CASE("a chat's messages as turns") {
  const std::string call =
      R"({"id":"functions.f:0","type":"function","function":{"name":"f","arguments":"{\"a\": 1.0}"}})";
  const std::string used = R"({"type":"tool_use","id":"functions_2ef_3a0","name":"f","input":{"a": 1.0}})";
  const struct {
    const char* name;
    std::string messages;
    std::string expected;  // from "system" or "messages"
  } rows[] = {
      {"system and developer, wherever they are",
       R"({"role":"system","content":"a"},{"role":"user","content":"u"},{"role":"developer",)"
       R"("content":[{"type":"text","text":"b"}]})",
       R"("system":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"messages":[{"role":"user",)"
       R"("content":[{"type":"text","text":"u"}]}])"},
      {"an image by data and by URL",
       R"({"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/jpg;base64,QUJD",)"
       R"("detail":"low"}},)"
       R"({"type":"image_url","image_url":{"url":"https://h/i.png"}},{"type":"text","text":"t",)"
       R"("cache_control":{"type":"ephemeral"}}]})",
       R"("messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64",)"
       R"("media_type":"image/jpeg","data":"QUJD"}},)"
       R"({"type":"image","source":{"type":"url","url":"https://h/i.png"}},{"type":"text","text":"t",)"
       R"("cache_control":{"type":"ephemeral"}}]}])"},
      {"results in a row and what the user adds are one turn",
       R"({"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[)" + call + "," +
           call +
           R"(]},{"role":"tool","tool_call_id":"functions.f:0","content":"r"},)"
           R"({"role":"tool","tool_call_id":"x","content":[{"type":"text","text":"s"},{"type":"text",)"
           R"("text":""}]},)"
           R"({"role":"user","content":"more"})",
       R"("messages":[{"role":"user","content":[{"type":"text","text":"u"}]},{"role":"assistant",)"
       R"("content":[)" +
           used + "," + used +
           R"(]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"functions_2ef_3a0",)"
           R"("content":[{"type":"text","text":"r"}]},)"
           R"({"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"s"}]},)"
           R"({"type":"text","text":"more"}]}])"},
      {"an assistant's text, refusal and unsigned thoughts",
       R"({"role":"user","content":"u","name":"n"},{"role":"assistant","content":[{"type":"text",)"
       R"("text":"t"},{"type":"refusal","refusal":"no"}],"reasoning":"hm","reasoning_content":"hm"})",
       R"("messages":[{"role":"user","content":[{"type":"text","text":"u"}]},{"role":"assistant",)"
       R"("content":[{"type":"text","text":"t"},{"type":"text","text":"no"}]}])"},
      {"messages that say nothing are none",
       R"({"role":"user","content":"u"},{"role":"assistant","content":""},{"role":"user","content":[]},)"
       R"({"role":"user","content":"v"})",
       R"("messages":[{"role":"user","content":[{"type":"text","text":"u"},{"type":"text","text":"v"}]}])"},
      {"a call without arguments",
       R"({"role":"user","content":"u"},{"role":"assistant","tool_calls":[{"id":"a","type":"function",)"
       R"("function":{"name":"f","arguments":""}}]})",
       R"("messages":[{"role":"user","content":[{"type":"text","text":"u"}]},{"role":"assistant",)"
       R"("content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}])"},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto out = to_messages_request(R"({"model":"m","messages":[)" + r.messages + "]}", k_target);
    INFO((out ? std::string() : out.error().message));
    REQUIRE(out.has_value());
    CHECK(*out == R"({"model":"claude","max_tokens":4096,)" + r.expected + '}');
  }
}

TEST_CASE("thinking by a budget stays below the tokens asked for, and out of a tool turn") {
  constexpr messages_target k_earlier{.max_tokens_default = 20'000, .thinking = thinking_form::budget};
  const std::string turn =
      R"({"role":"user","content":"u"},{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f",)"
      R"("arguments":"{}"}}]},)"
      R"({"role":"tool","tool_call_id":"a","content":"r"})";
  const struct {
    const char* name;
    std::string messages;
    const char* members;
    const char* thinking;  // empty: none
  } rows[] = {
      {"high", R"({"role":"user","content":"u"})", R"(,"reasoning_effort":"high")", "15000"},
      {"low", R"({"role":"user","content":"u"})", R"(,"reasoning_effort":"low")", "4096"},
      {"of few tokens", R"({"role":"user","content":"u"})", R"(,"reasoning_effort":"low","max_tokens":2000)",
       "1500"},
      {"of too few tokens", R"({"role":"user","content":"u"})",
       R"(,"reasoning_effort":"low","max_tokens":1000)", ""},
      {"in a tool turn", turn, R"(,"reasoning_effort":"low")", ""},
      {"after one", turn + R"(,{"role":"user","content":"v"})", R"(,"reasoning_effort":"low")", "4096"},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto out =
        to_messages_request(R"({"model":"m","messages":[)" + r.messages + "]" + r.members + "}", k_earlier);
    REQUIRE(out.has_value());
    const std::string expected =
        R"("thinking":{"type":"enabled","budget_tokens":)" + std::string(r.thinking) + '}';
    CHECK((out->find("\"thinking\"") != std::string::npos) == (*r.thinking != 0));
    if (*r.thinking != 0) CHECK(out->find(expected) != std::string::npos);
  }
}

TEST_CASE("a target that samples its own way is told none") {
  const auto out = to_messages_request(chat(R"(,"temperature":0.5,"top_p":0.5,"top_k":5)"),
                                       {.model = "claude", .sampling = false});
  REQUIRE(out.has_value());
  CHECK(*out == messages(""));
}

TEST_CASE("what a messages API cannot say names its field") {
  const std::string image = R"({"type":"image_url","image_url":{"url":)";
  const struct {
    std::string body;
    const char* param;
    errc code;
  } rows[] = {
      {chat(R"(,"n":2)"), "n", errc::unsupported},
      {chat(R"(,"n":"2")"), "n", errc::bad_request},
      {chat(R"(,"logprobs":true)"), "logprobs", errc::unsupported},
      {chat(R"(,"logit_bias":{"1":2})"), "logit_bias", errc::unsupported},
      {chat(R"(,"functions":[])"), "functions", errc::unsupported},
      {chat(R"(,"guided_json":{"a":1})"), "guided_json", errc::unsupported},
      {chat(R"(,"modalities":["audio"])"), "modalities", errc::unsupported},
      {chat(R"(,"response_format":{"type":"json_object"})"), "response_format", errc::unsupported},
      {chat(R"(,"tools":[{"type":"custom","custom":{"name":"x"}}])"), "tools", errc::unsupported},
      {chat(R"(,"tool_choice":"required")"), "tool_choice", errc::bad_request},
      {chat(R"(,"tool_choice":7)"), "tool_choice", errc::bad_request},
      {chat(R"(,"max_tokens":0)"), "max_tokens", errc::bad_request},
      {chat(R"(,"temperature":2.5)"), "temperature", errc::bad_request},
      {chat(R"(,"stop":[1])"), "stop", errc::bad_request},
      {chat(R"(,"reasoning_effort":"much")"), "reasoning_effort", errc::bad_request},
      {R"({"model":"m"})", "messages", errc::bad_request},
      {R"({"model":"m","messages":[]})", "messages", errc::bad_request},
      {R"({"model":"m","messages":[1]})", "messages[0]", errc::bad_request},
      {R"({"model":"m","messages":[{"role":"function","content":"x"}]})", "messages[0].role",
       errc::bad_request},
      {R"({"model":"m","messages":[{"role":"user","content":[{"type":"file"}]}]})", "messages[0].content",
       errc::bad_request},
      {R"({"model":"m","messages":[{"role":"user","content":[)" + image + R"("ftp://x"}}]}]})",
       "messages[0].content", errc::bad_request},
      {R"({"model":"m","messages":[{"role":"user","content":[)" + image +
           R"("data:image/bmp;base64,x"}}]}]})",
       "messages[0].content", errc::bad_request},
      {R"({"model":"m","messages":[{"role":"tool","content":"x"}]})", "messages[0].tool_call_id",
       errc::bad_request},
      {R"({"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f",)"
       R"("arguments":"{"}}]}]})",
       "messages[0].tool_calls", errc::bad_request},
      {R"({"model":"m","model":"n"})", "", errc::bad_request},
      {"[]", "", errc::bad_request},
  };
  for (const auto& r : rows) {
    INFO(r.body);
    const auto out = to_messages_request(r.body, k_target);
    REQUIRE_FALSE(out.has_value());
    CHECK(out.error().param == r.param);
    CHECK(out.error().code == r.code);
  }
}

}  // namespace weir::gateway::dialects
