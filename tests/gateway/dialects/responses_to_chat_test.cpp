#include "gateway/dialects/responses_to_chat.hpp"

#include <catch2/catch.hpp>

#include "gateway/api/chat_types.hpp"

namespace weir::gateway::dialects {

namespace {

std::string responses(const std::string& members) {
  return R"({"model":"m","input":"hi")" + members + '}';
}

std::string chat(const std::string& members) {
  return R"({"model":"m","messages":[{"role":"user","content":"hi"}])" + members + '}';
}

}  // namespace

TEST_CASE("a responses request's parameters as those of a chat request") {
  const struct {
    const char* name;
    std::string body;
    std::string expected;
  } rows[] = {
      {"the least", responses(""), chat("")},
      {"an allowed choice",
       responses(R"(,"tool_choice":{"type":"allowed_tools","mode":"required",)"
                 R"("tools":[{"type":"function","name":"f"}]})"),
       chat(R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required",)"
            R"("tools":[{"type":"function",)"
            R"("function":{"name":"f"}}]}})")},
      {"a word of choice", responses(R"(,"tool_choice":"required")"), chat(R"(,"tool_choice":"required")")},
      {"a named choice", responses(R"(,"tool_choice":{"type":"function","name":"f"})"),
       chat(R"(,"tool_choice":{"type":"function","function":{"name":"f"}})")},
      {"a tool",
       responses(R"(,"tools":[{"type":"function","name":"f","strict":true,)"
                 R"("parameters":{"type":"object"}}])"),
       chat(R"(,"tools":[{"type":"function","function":{"name":"f","strict":true,)"
            R"("parameters":{"type":"object"}}}])")},
      {"no tools", responses(R"(,"tools":[])"), chat("")},
      {"text", responses(R"(,"text":{"format":{"type":"text"}})"),
       chat(R"(,"response_format":{"type":"text"})")},
      {"a schema",
       responses(R"(,"text":{"format":{"type":"json_schema","name":"a","strict":true,"schema":{"x":1}}})"),
       chat(R"(,"response_format":{"type":"json_schema","json_schema":{"name":"a",)"
            R"("strict":true,"schema":{"x":1}}})")},
      {"logprobs", responses(R"(,"include":["message.output_text.logprobs"],"top_logprobs":3)"),
       chat(R"(,"logprobs":true,"top_logprobs":3)")},
      {"what is left out", responses(R"(,"store":true,"metadata":{},"truncation":"auto","user":"u")"),
       chat("")},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    const auto there = responses_to_chat(r.body);
    INFO((there ? std::string() : there.error().message));
    REQUIRE(there);
    CHECK(there->body == r.expected);
  }
}

TEST_CASE("sampling goes over, and what the answer repeats") {
  const auto there = responses_to_chat(
      responses(R"(,"stream":true,"temperature":0.5,"top_p":0.25,"max_output_tokens":9,"user":"u")"));
  REQUIRE(there);
  const auto request = api::parse_chat_request(there->body);
  REQUIRE(request);
  CHECK(request->options.stream);
  CHECK(request->options.temperature == 0.5F);
  CHECK(request->options.top_p == 0.25F);
  CHECK(request->options.max_tokens == 9);
  for (const auto* part : {R"("temperature":0.5)", R"("user":"u")", R"("tools":[])", R"("instructions":null)",
                           R"("store":false)", R"("previous_response_id":null)"}) {
    INFO(part);
    CHECK(there->echo.find(part) != std::string::npos);
  }
}

TEST_CASE("items as messages") {
  const auto there = responses_to_chat(
      R"({"model":"m","instructions":"be short","input":[)"
      R"({"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},)"
      R"({"type":"reasoning","summary":[]},)"
      R"({"type":"message","role":"assistant","content":[{"type":"output_text","text":"c"}]},)"
      R"({"type":"function_call","call_id":"1","name":"f","arguments":"{}"},)"
      R"({"type":"function_call","call_id":"2","name":"g","arguments":"{}"},)"
      R"({"type":"function_call_output","call_id":"1","output":"x"},)"
      R"({"type":"function_call_output","call_id":"2","output":[{"type":"input_text","text":"y"}]},)"
      R"({"type":"function_call","call_id":"3","name":"f","arguments":"{}"}]})");
  REQUIRE(there);
  const auto call = [](const char* id, const char* name) {
    return R"({"id":")" + std::string(id) + R"(","type":"function","function":{"name":")" + name +
           R"(","arguments":"{}"}})";
  };
  CHECK(there->body == R"({"model":"m","messages":[{"role":"system","content":"be short"},)"
                       R"({"role":"user","content":"ab"},{"role":"assistant","content":"c"},)"
                       R"({"role":"assistant","content":"","tool_calls":[)" +
                           call("1", "f") + "," + call("2", "g") +
                           R"(]},{"role":"tool","content":"x","tool_call_id":"1"},)"
                           R"({"role":"tool","content":"y","tool_call_id":"2"},)"
                           R"({"role":"assistant","content":"","tool_calls":[)" +
                           call("3", "f") + "]}]}");
  CHECK(api::parse_chat_request(there->body));
}

TEST_CASE("what a responses request may not hold") {
  const struct {
    std::string body;
    const char* param;
  } rows[] = {
      {R"({"model":"m"})", "input"},
      {R"({"model":"m","input":3})", "input"},
      {R"({"model":"m","input":[{"type":"item_reference","id":"x"}]})", "input[0]"},
      {R"({"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]})",
       "input[0]"},
      {R"({"model":"m","input":[{"role":"user"}]})", "input[0]"},
      {R"({"model":"m","input":[{"type":"function_call","name":"f"}]})", "input[0]"},
      {R"({"model":"m","input":[{"type":"function_call_output","output":"x"}]})", "input[0]"},
      {responses(R"(,"instructions":3)"), "instructions"},
      {responses(R"(,"tools":[{"type":"web_search"}])"), "tools"},
      {responses(R"(,"tools":3)"), "tools"},
  };
  for (const auto& r : rows) {
    INFO(r.body);
    const auto there = responses_to_chat(r.body);
    REQUIRE_FALSE(there);
    CHECK(there.error().param == r.param);
  }
}

TEST_CASE("faults of the chat request are named as the client knows them") {
  const struct {
    const char* there;
    const char* here;
  } rows[] = {{"messages[2].role", "input"},
              {"response_format.json_schema.name", "text.format.name"},
              {"response_format", "text.format"},
              {"max_completion_tokens", "max_output_tokens"},
              {"tools", "tools"}};
  for (const auto& r : rows) {
    const error why =
        as_responses_error({errc::bad_request, "'" + std::string(r.there) + "' is wrong", r.there});
    CHECK(why.param == r.here);
  }
  CHECK(as_responses_error({errc::bad_request, "'response_format' is wrong", "response_format"}).message ==
        "'text.format' is wrong");
}

}  // namespace weir::gateway::dialects
