#include <catch2/catch.hpp>

#include "gateway/dialects/to_chat_reply.hpp"
#include "gateway/dialects/to_chat_request.hpp"
#include "gateway/dialects/to_chat_stream.hpp"
#include "gateway/dialects/to_messages_reply.hpp"
#include "gateway/dialects/to_messages_request.hpp"
#include "gateway/dialects/to_messages_stream.hpp"
#include "tests/gateway/dialects/stream_run.hpp"

namespace weir::gateway::dialects {

TEST_CASE("a chat request comes back from a messages request as it was") {
  const struct {
    const char* name;
    std::string body;
  } rows[] = {
      {"the least", R"({"model":"m","max_completion_tokens":9,"messages":[{"role":"user","content":"u"}]})"},
      {"a conversation",
       R"({"model":"m","max_completion_tokens":9,"messages":[{"role":"system","content":"s"},)"
       R"({"role":"user","content":"u"},)"
       R"({"role":"assistant","content":"t","tool_calls":[{"id":"a","type":"function",)"
       R"("function":{"name":"f","arguments":"{\"x\": 1.0}"}},)"
       R"({"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]},{"role":"tool",)"
       R"("tool_call_id":"a","content":"1"},)"
       R"({"role":"tool","tool_call_id":"b","content":"2"},{"role":"user","content":"v"}]})"},
      {"parameters",
       R"({"model":"m","max_completion_tokens":9,"messages":[{"role":"user","content":[{"type":"text",)"
       R"("text":"u"},)"
       R"({"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}]}],)"
       R"("tools":[{"type":"function","function":{"name":"f","description":"d",)"
       R"("parameters":{"type":"object"}}}],)"
       R"("tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,)"
       R"("temperature":0.5,"top_p":0.25,"top_k":4,"stop":["x"],"user":"w",)"
       R"("stream":true,"stream_options":{"include_usage":true}})"},
      {"thinking and a schema",
       R"({"model":"m","max_completion_tokens":9,"messages":[{"role":"user","content":"u"}],)"
       R"("reasoning_effort":"max",)"
       R"("response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,)"
       R"("schema":{"x":1e400}}}})"},
      {"a budget", R"({"model":"m","max_completion_tokens":30000,"messages":[{"role":"user","content":"u"}],)"
                   R"("reasoning_effort":"medium"})"},
  };
  for (const auto& r : rows) {
    for (const auto form : {thinking_form::adaptive, thinking_form::budget}) {
      INFO(r.name << (form == thinking_form::budget ? ", budget" : ""));
      if (r.body.find("\"max\"") != std::string::npos && form == thinking_form::budget) continue;
      const auto there = to_messages_request(r.body, {.model = {}, .thinking = form});
      INFO((there ? *there : there.error().message));
      REQUIRE(there.has_value());
      const auto back = to_chat_request(*there, messages_endpoint::messages);
      INFO((back ? std::string() : back.error().message));
      REQUIRE(back.has_value());
      CHECK(*back == r.body);
    }
  }
}

TEST_CASE("a reply comes back from the other shape as it was") {
  const std::string completion =
      R"({"id":"c","object":"chat.completion","created":5,"model":"m","choices":[{"index":0,)"
      R"("message":{"role":"assistant",)"
      R"("content":"t","refusal":null,"reasoning":"h","reasoning_content":"h","tool_calls":[{"id":"a",)"
      R"("type":"function",)"
      R"("function":{"name":"f","arguments":"{\"x\": 1.0}"}}]},"logprobs":null,)"
      R"("finish_reason":"tool_calls"}],)"
      R"("usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":)"
      R"({"cached_tokens":4,"cache_write_tokens":1},"completion_tokens_details":{"reasoning_tokens":2}}})";
  const auto message = to_messages_reply(completion, {"msg_1", "m"});
  REQUIRE(message.has_value());
  CHECK(message->body ==
        R"({"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"thinking",)"
        R"("thinking":"h",)"
        R"("signature":""},{"type":"text","text":"t"},{"type":"tool_use","id":"a","name":"f",)"
        R"("input":{"x": 1.0}}],)"
        R"("stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":4,)"
        R"("cache_creation_input_tokens":1,)"
        R"("cache_read_input_tokens":4,"output_tokens":3,"output_tokens_details":{"thinking_tokens":2}}})");
  const auto back = to_chat_reply(message->body, {"c", "m", 5});
  REQUIRE(back.has_value());
  CHECK(back->body == completion);
}

TEST_CASE("replies that are no chat completion are the target's fault") {
  for (const char* bad : {
           "",
           "{}",
           R"({"choices":[]})",
           R"({"choices":[{"index":1,"message":{}}]})",
           R"({"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}}]}}]})",
           R"({"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}}]})",
       }) {
    INFO(bad);
    const auto out = to_messages_reply(bad, {"msg_1", "m"});
    REQUIRE_FALSE(out.has_value());
    CHECK(out.error().code == errc::upstream_failed);
  }
  const auto stopped = to_messages_reply(
      R"({"choices":[{"message":{"content":"x"},"finish_reason":"stop","stop_reason":"END"}]})",
      {"msg_1", "m"});
  REQUIRE(stopped.has_value());
  CHECK(stopped->body.find(R"("stop_reason":"stop_sequence","stop_sequence":"END")") != std::string::npos);
  CHECK(count_tokens_json(7) == R"({"input_tokens":7})");
}

TEST_CASE("a tool call that the limit cut is left out, and what came before it stays") {
  const std::string whole = R"({"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}})";
  for (const char* cut : {
           R"({"id":"b","function":{"name":"g","arguments":"{\"city\": \"Nai"}})",
           R"({"id":"b","function":{"name":"g","arguments":""}})",
           R"({"id":"b","function":{}})",
           R"({"id":"b"})",
       }) {
    INFO(cut);
    const auto out = to_messages_reply(R"({"choices":[{"message":{"content":"Let me see.","tool_calls":[)" +
                                           whole + "," + cut + R"(]},"finish_reason":"length"}]})",
                                       {"msg_1", "m"});
    REQUIRE(out.has_value());
    CHECK(out->body.find(R"("content":[{"type":"text","text":"Let me see."},{"type":"tool_use","id":"a",)"
                         R"("name":"f","input":{"x":1}}],"stop_reason":"max_tokens")") != std::string::npos);
  }
}

TEST_CASE("a chat stream comes back from message events as it was") {
  const std::string head =
      R"(data: {"id":"c","object":"chat.completion.chunk","created":5,"model":"m","choices":[{"index":0,)"
      R"("delta":{)";
  const std::string tail = R"(},"logprobs":null,"finish_reason":null}],"usage":null})"
                           "\n\n";
  const std::string chunks =
      head + R"("role":"assistant","content":"","refusal":null)" + tail + head +
      R"("reasoning_content":"h","reasoning":"h")" + tail + head + R"("content":"t\u2028")" + tail + head +
      R"("tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}])" +
      tail + head + R"("tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}])" + tail + head +
      R"("tool_calls":[{"index":0,"function":{"arguments":"1}"}}])" + tail + head +
      R"(},"logprobs":null,"finish_reason":"tool_calls"}],"usage":null})"
      "\n\n"
      R"(data: {"id":"c","object":"chat.completion.chunk","created":5,"model":"m","choices":[],"usage":)"
      R"({"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,)"
      R"("prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":0}}})"
      "\n\ndata: [DONE]\n\n";
  messages_stream there({{"msg_1", "m"}, "req_1", 0});
  const std::string events = testing::run(there, chunks);
  chat_stream back({{"c", "m", 5}, true});
  std::string expected = chunks;
  expected.replace(expected.find("\\u2028"), 6, "\xE2\x80\xA8");
  CHECK(testing::run(back, events) == expected);
}

}  // namespace weir::gateway::dialects
