#include "gateway/dialects/to_messages_stream.hpp"

#include <catch2/catch.hpp>

#include "tests/gateway/dialects/stream_run.hpp"

namespace weir::gateway::dialects {

namespace {

const messages_stream::options k_options{{"msg_1", "m"}, "req_1", 12};

std::string chunk(std::string_view delta, std::string_view rest = {}) {
  return R"(data: {"id":"x","choices":[{"index":0,"delta":{)" + std::string(delta) + "}" + std::string(rest) +
         "}]}\n\n";
}

std::string call(int index, std::string_view id, std::string_view name, std::string_view arguments) {
  std::string out = R"("tool_calls":[{"index":)" + std::to_string(index);
  if (!id.empty()) out += R"(,"id":")" + std::string(id) + R"(","type":"function")";
  out += R"(,"function":{)";
  if (!name.empty()) out += R"("name":")" + std::string(name) + R"(",)";
  return chunk(out + R"("arguments":")" + std::string(arguments) + R"("}}])");
}

std::string finish(std::string_view reason) {
  return chunk("", R"(,"finish_reason":")" + std::string(reason) + '"') +
         R"(data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":7,)"
         R"("prompt_tokens_details":{"cached_tokens":15}}})"
         "\n\ndata: [DONE]\n\n";
}

std::string event(std::string_view type, std::string_view members) {
  return "event: " + std::string(type) + "\ndata: {\"type\":\"" + std::string(type) + "\"" +
         std::string(members) + "}\n\n";
}

const std::string k_start =
    event("message_start",
          R"(,"message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],)"
          R"("stop_reason":null,)"
          R"("stop_sequence":null,"usage":{"input_tokens":12,"cache_creation_input_tokens":0,)"
          R"("cache_read_input_tokens":0,"output_tokens":0}})");

std::string block(int index, std::string_view content_block) {
  return event("content_block_start",
               R"(,"index":)" + std::to_string(index) + R"(,"content_block":)" + std::string(content_block));
}

std::string text_block(int index) {
  return block(index, R"({"type":"text","text":""})");
}

std::string tool_block(int index, std::string_view id, std::string_view name) {
  return block(index, R"({"type":"tool_use","id":")" + std::string(id) + R"(","name":")" + std::string(name) +
                          R"(","input":{}})");
}

std::string delta(int index, std::string_view type, std::string_view key, std::string_view text) {
  return event("content_block_delta", R"(,"index":)" + std::to_string(index) + R"(,"delta":{"type":")" +
                                          std::string(type) + R"(",")" + std::string(key) + R"(":")" +
                                          std::string(text) + R"("})");
}

std::string text(int index, std::string_view piece) {
  return delta(index, "text_delta", "text", piece);
}

std::string arguments(int index, std::string_view piece) {
  return delta(index, "input_json_delta", "partial_json", piece);
}

std::string stop(int index) {
  return event("content_block_stop", R"(,"index":)" + std::to_string(index));
}

std::string end(std::string_view reason, std::string_view sequence = "null") {
  return event("message_delta", R"(,"delta":{"stop_reason":")" + std::string(reason) +
                                    R"(","stop_sequence":)" + std::string(sequence) +
                                    R"(},"usage":{"input_tokens":5,"cache_creation_input_tokens":0,)"
                                    R"("cache_read_input_tokens":15,"output_tokens":7})") +
         event("message_stop", "");
}

const std::string k_role = chunk(R"("role":"assistant","content":"")");

struct row {
  const char* name;
  std::string chunks;
  std::string expected;
};

void check(const row& r) {
  INFO(r.name);
  for (std::size_t cut = 0; cut <= r.chunks.size(); ++cut) {
    messages_stream stream(k_options);
    const std::string out = testing::run(stream, r.chunks, cut);
    if (out == r.expected) continue;
    CHECK(out == r.expected);
    break;
  }
  messages_stream stream(k_options);
  CHECK(testing::run(stream, r.chunks) == r.expected);
  CHECK(stream.ended());
  CHECK(stream.usage().cached_tokens == 15);
}

}  // namespace

TEST_CASE("chunks become message events") {
  const row rows[] = {
      {"text",
       k_role + chunk(R"("content":"a\n")") + ": ping\n\n" + chunk(R"("content":"b")") + finish("stop"),
       k_start + text_block(0) + text(0, R"(a\n)") + event("ping", "") + text(0, "b") + stop(0) +
           end("end_turn")},
      {"reasoning under either name, then text",
       k_role + chunk(R"("reasoning_content":"h")") + chunk(R"("reasoning":"m","reasoning_content":"m")") +
           chunk(R"("content":"a")") + finish("length"),
       k_start + block(0, R"({"type":"thinking","thinking":"","signature":""})") +
           delta(0, "thinking_delta", "thinking", "h") + delta(0, "thinking_delta", "thinking", "m") +
           stop(0) + text_block(1) + text(1, "a") + stop(1) + end("max_tokens")},
      {"a stop string",
       k_role + chunk(R"("content":"t")", R"(,"finish_reason":"stop","stop_reason":"END")") +
           "data: "
           "{\"choices\":[],\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":7,\"cached_tokens\":15}}"
           "\n\ndata: [DONE]\n\n",
       k_start + text_block(0) + text(0, "t") + stop(0) + end("stop_sequence", R"("END")")},
      {"a refusal", k_role + chunk(R"("refusal":"no")") + finish("stop"),
       k_start + text_block(0) + text(0, "no") + stop(0) + end("refusal")},
      {"an empty answer, and other choices",
       k_role +
           R"(data: {"choices":[{"index":1,"delta":{"content":"x"}}]})"
           "\n\n" +
           finish("stop"),
       k_start + end("end_turn")},
  };
  for (const auto& r : rows) check(r);
}

TEST_CASE("tool calls become blocks, one behind the other") {
  const row rows[] = {
      {"two calls one after the other, C1: no id behind the first delta",
       k_role + call(0, "a", "f", "") + call(0, "", "", R"({\"x\")") + call(0, "", "", ":1}") +
           call(1, "b", "g", "{}") + finish("tool_calls"),
       k_start + tool_block(0, "a", "f") + arguments(0, R"({\"x\")") + arguments(0, ":1}") + stop(0) +
           tool_block(1, "b", "g") + arguments(1, "{}") + stop(1) + end("tool_use")},
      {"C2: two calls interleaved wait for each other",
       k_role + call(0, "a", "f", "{") + call(1, "b", "g", R"({\"}\")") + call(0, "", "", R"(\"x\":\"}\")") +
           call(1, "", "", ":2}") + call(0, "", "", "}") + call(1, "", "", " ") + finish("tool_calls"),
       k_start + tool_block(0, "a", "f") + arguments(0, "{") + arguments(0, R"(\"x\":\"}\")") +
           arguments(0, "}") + stop(0) + tool_block(1, "b", "g") + arguments(1, R"({\"}\":2})") + stop(1) +
           end("tool_use")},
      {"C4: calls without an index",
       k_role + chunk(R"("tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}}])") +
           chunk(R"("tool_calls":[{"function":{"arguments":"}"}}])") +
           chunk(R"("tool_calls":[{"id":"b","function":{"name":"g","arguments":"{}"}}])") +
           finish("tool_calls"),
       k_start + tool_block(0, "a", "f") + arguments(0, "{") + arguments(0, "}") + stop(0) +
           tool_block(1, "b", "g") + arguments(1, "{}") + stop(1) + end("tool_use")},
      {"ids that differ under one index, names told again",
       k_role + call(0, "a", "f", "{}") + call(0, "b", "g", "{") + call(0, "b", "g", "}") + finish("stop"),
       k_start + tool_block(0, "a", "f") + arguments(0, "{}") + stop(0) + tool_block(1, "b", "g") +
           arguments(1, "{") + arguments(1, "}") + stop(1) + end("tool_use")},
      {"a call without arguments, one cut off",
       k_role + chunk(R"("content":"t")") + call(0, "a", "f", "") + call(1, "b", "g", R"({\"x)") +
           finish("length"),
       k_start + text_block(0) + text(0, "t") + stop(0) + tool_block(1, "a", "f") + stop(1) +
           tool_block(2, "b", "g") + arguments(2, R"({\"x)") + stop(2) + end("max_tokens")},
      {"text behind a call",
       k_role + call(0, "a", "f", "{}") + chunk(R"("content":"t")") + finish("tool_calls"),
       k_start + tool_block(0, "a", "f") + arguments(0, "{}") + stop(0) + text_block(1) + text(1, "t") +
           stop(1) + end("tool_use")},
  };
  for (const auto& r : rows) check(r);
}

TEST_CASE("the end of the chunks ends the message, in order or in an error") {
  messages_stream finished(k_options);
  std::string out = testing::run(finished, k_role + chunk(R"("content":"a")", R"(,"finish_reason":"stop")"));
  finished.end(out);
  CHECK(out.ends_with(event("message_stop", "")));
  finished.end(out);
  CHECK(out.ends_with(event("message_stop", "")));

  messages_stream cut(k_options);
  out = testing::run(cut, k_role + chunk(R"("content":"a")"));
  cut.end(out);
  CHECK(out == k_start + text_block(0) + text(0, "a") +
                   "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":"
                   "\"the target ended its answer early\"},\"request_id\":\"req_1\"}\n\n");

  messages_stream late(k_options);
  out.clear();
  late.fail({errc::deadline_exceeded, "too late", {}}, out);
  CHECK(out ==
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"timeout_error\",\"message\":\"too "
        "late\"},"
        "\"request_id\":\"req_1\"}\n\n");
}

TEST_CASE("faults in the chunks end the message in an error event") {
  const struct {
    const char* name;
    std::string chunks;
    const char* type;
  } rows[] = {
      {"the target's error", "data: {\"error\":{\"message\":\"x\",\"code\":503}}\n\n", "overloaded_error"},
      {"an error without a status", "data: {\"error\":{\"message\":\"x\",\"code\":\"y\"}}\n\n", "api_error"},
      {"no JSON", "data: {\n\n", "api_error"},
      {"a call that goes on", k_role + call(0, "a", "f", "{}") + call(0, "", "", "1"), "api_error"},
      {"a call without a name", k_role + call(0, "a", "", "{}") + finish("tool_calls"), "api_error"},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    messages_stream stream(k_options);
    const std::string out = testing::run(stream, r.chunks + finish("stop"));
    CHECK(stream.ended());
    const auto at = out.rfind("event: ");
    REQUIRE(at != std::string::npos);
    CHECK(out.substr(at).starts_with("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"" +
                                     std::string(r.type)));
  }
}

TEST_CASE("what waits for an unfinished call is bounded") {
  messages_stream stream(k_options);
  std::string out = testing::run(stream, k_role + call(0, "a", "f", "{"));
  const std::string much = chunk(R"("content":")" + std::string(1 << 20, 'x') + '"');
  int pushed = 0;
  while (!stream.ended() && pushed < 16) {
    stream.push(much, out);
    ++pushed;
  }
  CHECK(stream.ended());
  CHECK(pushed == 5);
}

}  // namespace weir::gateway::dialects
