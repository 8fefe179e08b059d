#include "gateway/dialects/to_chat_request.hpp"

#include <catch2/catch.hpp>

#include "gateway/api/chat_types.hpp"

namespace weir::gateway::dialects {

namespace {

std::string messages(const std::string& members) {
  return R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}])" + members + '}';
}

std::string chat(const std::string& members) {
  return R"({"model":"m","max_completion_tokens":9,"messages":[{"role":"user","content":"hi"}])" + members +
         '}';
}

}  // namespace

TEST_CASE("a messages request's parameters as those of a chat request") {
  const std::string tool = R"({"name":"f","description":"d","input_schema":{"type":"object","x":1e400}})";
  const std::string function =
      R"({"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object",)"
      R"("x":1e400}}})";
  const struct {
    const char* name;
    std::string body;
    std::string expected;
  } rows[] = {
      {"the least", messages(""), chat("")},
      {"sampling and stops",
       messages(R"(,"temperature":0.5,"top_p":0.25,"top_k":5,"stop_sequences":["a","b"])"),
       chat(R"(,"temperature":0.5,"top_p":0.25,"top_k":5,"stop":["a","b"])")},
      {"stream", messages(R"(,"stream":true)"),
       chat(R"(,"stream":true,"stream_options":{"include_usage":true})")},
      {"caller", messages(R"(,"metadata":{"user_id":"u"})"), chat(R"(,"user":"u")")},
      {"a tool", messages(R"(,"tools":[)" + tool + ']'), chat(R"(,"tools":[)" + function + ']')},
      {"a strict tool that says it is one",
       messages(
           R"(,"tools":[{"type":"custom","name":"f","input_schema":{},"strict":true,"defer_loading":true}])"),
       chat(R"(,"tools":[{"type":"function","function":{"name":"f","parameters":{},"strict":true}}])")},
      {"any tool", messages(R"(,"tool_choice":{"type":"any"})"), chat(R"(,"tool_choice":"required")")},
      {"one tool", messages(R"(,"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true})"),
       chat(R"(,"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false)")},
      {"thinking off", messages(R"(,"thinking":{"type":"disabled"},"output_config":{"effort":"high"})"),
       chat(R"(,"reasoning_effort":"none")")},
      {"little thinking", messages(R"(,"thinking":{"type":"enabled","budget_tokens":1024})"),
       chat(R"(,"reasoning_effort":"low")")},
      {"much thinking", messages(R"(,"thinking":{"type":"enabled","budget_tokens":32000})"),
       chat(R"(,"reasoning_effort":"high")")},
      {"effort", messages(R"(,"thinking":{"type":"adaptive"},"output_config":{"effort":"max"})"),
       chat(R"(,"reasoning_effort":"max")")},
      {"a schema", messages(R"(,"output_config":{"format":{"type":"json_schema","schema":{"a":1.0}}})"),
       chat(R"(,"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,)"
            R"("schema":{"a":1.0}}})")},
      {"what is left out",
       messages(R"(,"cache_control":{"type":"ephemeral"},"service_tier":"auto","context_management":{},)"
                R"("container":null)"),
       chat("")},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto out = to_chat_request(r.body, messages_endpoint::messages);
    INFO((out ? std::string() : out.error().message));
    REQUIRE(out.has_value());
    CHECK(*out == r.expected);
  }
}

TEST_CASE("turns as a chat's messages") {
  const struct {
    const char* name;
    std::string members;  // "messages" and perhaps "system"
    std::string expected;
  } rows[] = {
      {"system text", R"("system":"s","messages":[{"role":"user","content":"u"}])",
       R"({"role":"system","content":"s"},{"role":"user","content":"u"})"},
      {"system blocks, without the accounting",
       R"("system":[{"type":"text","text":"x-anthropic-billing-header: a=1"},{"type":"text","text":"s",)"
       R"("cache_control":{"type":"ephemeral"}},{"type":"text","text":"t"}],"messages":[{"role":"user",)"
       R"("content":"u"},{"role":"system","content":"late"},{"role":"user","content":"v"}])",
       R"({"role":"system","content":"s\n\nt"},{"role":"user","content":"u"},{"role":"system",)"
       R"("content":"late"},{"role":"user","content":"v"})"},
      {"text and images",
       R"("messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image",)"
       R"("source":{"type":"base64","media_type":"image/png","data":"QUJD"}},{"type":"image",)"
       R"("source":{"type":"url","url":"https://h/i"}}]}])",
       R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url",)"
       R"("image_url":{"url":"data:image/png;base64,QUJD"}},{"type":"image_url",)"
       R"("image_url":{"url":"https://h/i"}}]})"},
      {"one text block is a string", R"("messages":[{"role":"user","content":[{"type":"text","text":"a"}]}])",
       R"({"role":"user","content":"a"})"},
      {"tool use and results, the user's text behind them",
       R"("messages":[{"role":"user","content":"u"},{"role":"assistant","content":[{"type":"thinking",)"
       R"("thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"x"},{"type":"text",)"
       R"("text":"t"},{"type":"tool_use","id":"a","name":"f","input":{"x": 99999999999999999999}},)"
       R"({"type":"tool_use","id":"b","name":"g","input":{},"caller":{"type":"direct"}}]},)"
       R"({"role":"user","content":[{"type":"text","text":"more"},{"type":"tool_result","tool_use_id":"a",)"
       R"("content":"r"},{"type":"tool_result","tool_use_id":"b","is_error":true,)"
       R"("content":[{"type":"text","text":"1"},{"type":"text","text":"2"}]}]}])",
       R"({"role":"user","content":"u"},{"role":"assistant","content":"t","reasoning":"hm",)"
       R"("tool_calls":[{"id":"a","type":"function","function":{"name":"f",)"
       "\"arguments\":\"{\\\"x\\\": 99999999999999999999}\"}},"
       R"({"id":"b","type":"function",)"
       R"("function":{"name":"g","arguments":"{}"}}]},)"
       R"({"role":"tool","tool_call_id":"a","content":"r"},{"role":"tool","tool_call_id":"b",)"
       R"("content":[{"type":"text","text":"1"},{"type":"text","text":"2"}]},{"role":"user",)"
       R"("content":"more"})"},
      {"only results",
       R"("messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},)"
       R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}])",
       R"({"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function",)"
       R"("function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":""})"},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto out =
        to_chat_request(R"({"model":"m","max_tokens":9,)" + r.members + "}", messages_endpoint::messages);
    INFO((out ? std::string() : out.error().message));
    REQUIRE(out.has_value());
    CHECK(*out == R"({"model":"m","max_completion_tokens":9,"messages":[)" + r.expected + "]}");
  }
}

TEST_CASE("counting needs no max_tokens and may end with the assistant") {
  const std::string body =
      R"({"model":"m","messages":[{"role":"user","content":"u"},{"role":"assistant","content":"a"}]})";
  const auto counted = to_chat_request(body, messages_endpoint::count_tokens);
  REQUIRE(counted.has_value());
  CHECK(*counted == body);
  CHECK(api::parse_chat_prompt(*counted).has_value());
  const auto answered = to_chat_request(body, messages_endpoint::messages);
  REQUIRE_FALSE(answered.has_value());
  CHECK(answered.error().param == "max_tokens");
}

TEST_CASE("what cannot be translated names its field") {
  const struct {
    std::string body;
    const char* param;
  } rows[] = {
      {R"({"max_tokens":9,"messages":[{"role":"user","content":"u"}]})", "model"},
      {R"({"model":"m","max_tokens":9})", "messages"},
      {R"({"model":"m","max_tokens":9,"messages":[{"role":"user"}]})", "messages[0].content"},
      {R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"u"},{"role":"assistant",)"
       R"("content":"a"}]})",
       "messages[1]"},
      {messages(R"(,"container":"c")"), "container"},
      {messages(R"(,"mcp_servers":[])"), "mcp_servers"},
      {messages(R"(,"inference_geo":"us")"), "inference_geo"},
      {messages(R"(,"surprise":1)"), "surprise"},
      {messages(
           R"(,"tools":[{"name":"f","input_schema":{}},{"type":"web_search_20250305","name":"web_search"}])"),
       "tools[1].type"},
      {messages(R"(,"tools":[{"name":"f"}])"), "tools[0]"},
      {messages(R"(,"tool_choice":{"type":"tool"})"), "tool_choice"},
      {messages(R"(,"thinking":{"type":"enabled"})"), "thinking.budget_tokens"},
      {messages(R"(,"thinking":{"type":"sometimes"})"), "thinking.type"},
      {messages(R"(,"output_config":{"effort":7})"), "output_config.effort"},
      {messages(R"(,"output_config":{"format":{"type":"xml"}})"), "output_config.format"},
      {messages(R"(,"temperature":1.5)"), "temperature"},
      {messages(R"(,"system":[{"type":"image"}])"), "system[0]"},
      {messages(R"(,"system":[{"type":"text","text":"a","citations":[{}]}])"), "system[0].citations"},
  };
  for (const auto& r : rows) {
    INFO(r.body);
    const auto out = to_chat_request(r.body, messages_endpoint::messages);
    REQUIRE_FALSE(out.has_value());
    CHECK(out.error().param == r.param);
    CHECK(out.error().code == errc::bad_request);
  }
}

TEST_CASE("blocks that cannot be translated name their place") {
  const struct {
    const char* role;
    const char* block;
    const char* param;
  } rows[] = {
      {"user", R"({"type":"document","source":{}})", "messages[0].content[0]"},
      {"user", R"({"type":"search_result"})", "messages[0].content[0]"},
      {"user", R"({"type":"image","source":{"type":"file","file_id":"f"}})", "messages[0].content[0].source"},
      {"user", R"({"type":"tool_result","tool_use_id":"a","content":[{"type":"document"}]})",
       "messages[0].content[0].content[0]"},
      {"user", R"({"type":"tool_result"})", "messages[0].content[0]"},
      {"user", R"({"type":"tool_use","id":"a","name":"f","input":{}})", "messages[0].content[0]"},
      {"user", "7", "messages[0].content[0]"},
      {"assistant", R"({"type":"server_tool_use","id":"a","name":"f","input":{}})", "messages[0].content[0]"},
      {"assistant", R"({"type":"tool_use","id":"a","name":"f","input":"x"})", "messages[0].content[0]"},
      {"assistant",
       R"({"type":"tool_use","id":"a","name":"f","input":{},"caller":{"type":"code_execution_20260120"}})",
       "messages[0].content[0].caller"},
      {"assistant", R"({"type":"tool_use","id":"a","name":"f","input":{},"toolset_name":"browser"})",
       "messages[0].content[0].toolset_name"},
  };
  for (const auto& r : rows) {
    INFO(r.block);
    const auto out =
        to_chat_request(R"({"model":"m","max_tokens":9,"messages":[{"role":")" + std::string(r.role) +
                            R"(","content":[)" + r.block + R"(]},{"role":"user","content":"u"}]})",
                        messages_endpoint::messages);
    REQUIRE_FALSE(out.has_value());
    CHECK(out.error().param == r.param);
  }
}

}  // namespace weir::gateway::dialects
