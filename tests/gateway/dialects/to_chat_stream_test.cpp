#include "gateway/dialects/to_chat_stream.hpp"

#include <catch2/catch.hpp>

#include "gateway/dialects/to_chat_reply.hpp"
#include "gateway/relay/event_stream.hpp"
#include "tests/gateway/dialects/stream_run.hpp"

namespace weir::gateway::dialects {

namespace {

const api::answer_identity k_identity{"chatcmpl-1", "m", 5};

std::string event(std::string_view type, std::string_view members) {
  return "event: " + std::string(type) + "\ndata: {\"type\":\"" + std::string(type) + "\"" +
         std::string(members) + "}\n\n";
}

std::string start(std::string_view usage = R"({"input_tokens":10,"output_tokens":1})") {
  return event("message_start", R"(,"message":{"id":"msg_1","usage":)" + std::string(usage) + '}');
}

std::string block(int index, std::string_view content_block) {
  return event("content_block_start",
               R"(,"index":)" + std::to_string(index) + R"(,"content_block":)" + std::string(content_block));
}

std::string delta(int index, std::string_view fields) {
  return event("content_block_delta",
               R"(,"index":)" + std::to_string(index) + R"(,"delta":)" + std::string(fields));
}

std::string stop(int index) {
  return event("content_block_stop", R"(,"index":)" + std::to_string(index));
}

std::string end(std::string_view reason) {
  return event("message_delta",
               R"(,"delta":{"stop_reason":")" + std::string(reason) + R"("},"usage":{"output_tokens":7})") +
         event("message_stop", "");
}

std::string chunk(std::string_view delta_members, std::string_view reason = "null", bool usage = false) {
  return R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":5,"model":"m","choices":[)"
         R"({"index":0,"delta":{)" +
         std::string(delta_members) + R"(},"logprobs":null,"finish_reason":)" + std::string(reason) + "}]" +
         (usage ? R"(,"usage":null)" : "") + "}\n\n";
}

const std::string k_role = R"("role":"assistant","content":"","refusal":null)";
const std::string k_done = "data: [DONE]\n\n";

std::string translate(std::string_view events) {
  chat_stream stream({k_identity});
  return testing::run(stream, events);
}

}  // namespace

TEST_CASE("message events become chunks") {
  const std::string call =
      R"("tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}])";
  const auto arguments = [](int index, const std::string& text) {
    return chunk(R"("tool_calls":[{"index":)" + std::to_string(index) + R"(,"function":{"arguments":")" +
                 text + R"("}}])");
  };
  const struct {
    const char* name;
    std::string events;
    std::string expected;
  } rows[] = {
      {"text",
       start() + block(0, R"({"type":"text","text":""})") + event("ping", "") +
           delta(0, R"({"type":"text_delta","text":"a\n\u00e9"})") + stop(0) + end("end_turn"),
       chunk(k_role) + ": ping\n\n" + chunk(R"("content":"a\né")") + chunk("", R"("stop")") + k_done},
      {"thinking, a signature, then text",
       start() + block(0, R"({"type":"thinking","thinking":"","signature":""})") +
           delta(0, R"({"type":"thinking_delta","thinking":"hm"})") +
           delta(0, R"({"type":"signature_delta","signature":"s"})") + stop(0) +
           block(1, R"({"type":"text","text":"b"})") + stop(1) + end("max_tokens"),
       chunk(k_role) + chunk(R"("reasoning_content":"hm","reasoning":"hm")") + chunk(R"("content":"b")") +
           chunk("", R"("length")") + k_done},
      {"two tools, one of them without arguments",
       start() + block(3, R"({"type":"tool_use","id":"a","name":"f","input":{}})") +
           delta(3, R"({"type":"input_json_delta","partial_json":""})") +
           delta(3, R"({"type":"input_json_delta","partial_json":"{\"x\":"})") +
           delta(3, R"({"type":"input_json_delta","partial_json":"1}"})") + stop(3) +
           block(4, R"({"type":"tool_use","id":"b","name":"g","input":{}})") + stop(4) + end("tool_use"),
       chunk(k_role) + chunk(call) + arguments(0, R"({\"x\":)") + arguments(0, "1}") +
           chunk(R"("tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"g",)"
                 R"("arguments":""}}])") +
           arguments(1, "{}") + chunk("", R"("tool_calls")") + k_done},
      {"a tool whose input came with its start, and no stop",
       start() + block(0, R"({"type":"tool_use","id":"a","name":"f","input":{"x":1.0}})") + end("tool_use"),
       chunk(k_role) + chunk(call) + arguments(0, R"({\"x\":1.0})") + chunk("", R"("tool_calls")") + k_done},
      {"blocks and events that chat clients have no use for",
       start() + block(0, R"({"type":"server_tool_use","id":"a","name":"f","input":{}})") +
           delta(0, R"({"type":"input_json_delta","partial_json":"{}"})") + stop(0) +
           event("something_new", R"(,"x":1)") + end("refusal"),
       chunk(k_role) + chunk("", R"("content_filter")") + k_done},
      {"nothing behind the end", start() + end("pause_turn") + start() + end("end_turn"),
       chunk(k_role) + chunk("", R"("stop")") + k_done},
      {"a connection that broke", start() + block(0, R"({"type":"text","text":"b"})"),
       chunk(k_role) + chunk(R"("content":"b")")},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    for (std::size_t cut = 0; cut <= r.events.size(); ++cut) {
      chat_stream stream({k_identity});
      const std::string out = testing::run(stream, r.events, cut);
      if (out != r.expected) CHECK(out == r.expected);
    }
    CHECK(translate(r.events) == r.expected);
  }
}

TEST_CASE("usage counts what was read from and written to a cache as the prompt's") {
  chat_stream stream({k_identity, true});
  const std::string out = testing::run(
      stream, start(R"({"input_tokens":10,"cache_read_input_tokens":80,"cache_creation_input_tokens":5,)"
                    R"("output_tokens":1})") +
                  end("end_turn"));
  CHECK(
      out ==
      chunk(k_role, "null", true) + chunk("", R"("stop")", true) +
          R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":5,"model":"m","choices":[],)"
          R"("usage":{"prompt_tokens":95,"completion_tokens":7,"total_tokens":102,)"
          R"("prompt_tokens_details":{"cached_tokens":80,"cache_write_tokens":5}}})"
          "\n\n" +
          k_done);
  CHECK(stream.ended());
  CHECK(stream.usage().prompt_tokens == 95);
  CHECK(stream.usage().cached_tokens == 80);
  CHECK(stream.usage().cache_write_tokens == 5);
  CHECK(stream.usage().completion_tokens == 7);
}

TEST_CASE("faults of the target end the chunks in an error event") {
  const struct {
    const char* name;
    std::string events;
    target_fault what;
    int status;
  } rows[] = {
      {"overloaded",
       "event: error\ndata: "
       "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n",
       target_fault::overloaded, 503},
      {"an error without its event line",
       "data: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"x\"}}\n\n",
       target_fault::broken, 502},
      {"no JSON", "event: message_start\ndata: {\n\n", target_fault::broken, 502},
      {"a key twice", "event: x\ndata: {\"a\":1,\"a\":2}\n\n", target_fault::broken, 502},
      {"no message", "data: {\"type\":\"message_start\"}\n\n", target_fault::broken, 502},
      {"no delta", "data: {\"type\":\"content_block_delta\"}\n\n", target_fault::broken, 502},
      {"no stop reason", event("message_stop", ""), target_fault::broken, 502},
      {"a tool without a name", block(0, R"({"type":"tool_use","id":"a"})"), target_fault::broken, 502},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    chat_stream stream({k_identity});
    const std::string out = testing::run(stream, r.events + end("end_turn"));
    REQUIRE(stream.failure().has_value());
    CHECK(stream.ended());
    CHECK(stream.failure()->what == r.what);
    CHECK(stream.failure()->status == r.status);
    relay::event_inspector inspector;
    const auto facts = inspector.inspect(std::string_view(out).substr(out.rfind("data: ")));
    CHECK(facts.what == relay::event_kind::error);
    CHECK(facts.error_status == r.status);
  }
}

TEST_CASE("the relay takes the chunks for a whole answer") {
  relay::event_inspector inspector;
  relay::event_stream relayed({}, inspector);
  const std::string out = translate(start() + block(0, R"({"type":"text","text":"b"})") + end("end_turn"));
  CHECK(relayed.push(out) == relay::event_stream::state::release);
  CHECK(relayed.released() == out);
  CHECK(relayed.complete());
}

TEST_CASE("a message becomes a chat completion") {
  const auto reply = to_chat_reply(
      R"({"id":"msg_1","type":"message","role":"assistant","model":"claude","stop_reason":"tool_use",)"
      R"("content":[)"
      R"({"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"x"},)"
      R"({"type":"text","text":"a"},)"
      R"({"type":"text","text":"b"},{"type":"tool_use","id":"t","name":"f",)"
      R"("input":{"x": 99999999999999999999}}],)"
      R"("usage":{"input_tokens":1,"cache_read_input_tokens":2,"output_tokens":3,)"
      R"("output_tokens_details":{"thinking_tokens":1}}})",
      {"", "m", 5});
  REQUIRE(reply.has_value());
  CHECK(
      reply->body ==
      R"({"id":"msg_1","object":"chat.completion","created":5,"model":"m","choices":[{"index":0,"message":)"
      R"({"role":"assistant","content":"ab","refusal":null,"reasoning":"hm","reasoning_content":"hm",)"
      R"("tool_calls":)"
      R"([{"id":"t","type":"function","function":{"name":"f",)"
      R"("arguments":"{\"x\": 99999999999999999999}"}}]},)"
      R"("logprobs":null,"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":3,)"
      R"("total_tokens":6,)"
      R"("prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":1}}})");
  CHECK(reply->usage.prompt_tokens == 3);
  CHECK(reply->usage.cached_tokens == 2);
  for (const char* bad :
       {"", "{}", R"({"type":"message"})", R"({"type":"message","content":[{"type":"text"}]})",
        R"({"type":"message","content":[{"type":"tool_use","id":"a","name":"f","input":1}]})",
        R"({"type":"message","content":[1]})", "<html>"}) {
    INFO(bad);
    const auto refused = to_chat_reply(bad, k_identity);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == errc::upstream_failed);
  }
}

}  // namespace weir::gateway::dialects
