#include "gateway/api/chat_types.hpp"

#include "tests/gateway/api/parse_cases.hpp"

namespace weir::gateway::api {

namespace {

using testing::field_case;

const std::string k_head = R"({"model":"tiny","messages":[{"role":"user","content":"hi"}])";
const std::string k_tool = R"({"type":"function","function":{"name":"f","parameters":{}}})";

// A fifth message behind four good ones.
std::string fifth(const std::string& message) {
  std::string out = R"({"model":"tiny","messages":[)";
  for (int i = 0; i < 4; ++i) out += R"({"role":"user","content":"hi"},)";
  return out + message + "]}";
}

}  // namespace

TEST_CASE("chat: shared fields") {
  testing::check_fields(k_head, testing::shared_cases(), parse_chat_request);
}

TEST_CASE("chat: own fields") {
  const std::vector<field_case> cases = {
      {",\"tools\":[" + k_tool + "]", nullptr},
      {R"(,"tools":[])", nullptr},
      {R"(,"tools":{})", "tools"},
      {R"(,"tools":[1])", "tools"},
      {R"(,"tools":[{"function":{"name":"f"}}])", "tools"},
      {R"(,"tools":[{"type":"custom","custom":{"name":"f"}}])", "tools"},
      {R"(,"tools":[{"type":"function"}])", "tools"},
      {R"(,"tools":[{"type":"function","function":{"name":"a b"}}])", "tools"},
      {R"(,"tools":[{"type":"function","function":{"name":""}}])", "tools"},
      {R"(,"tools":[{"type":"function","function":{"name":")" + std::string(65, 'f') + "\"}}]", "tools"},
      {R"(,"tool_choice":"auto")", nullptr},
      {R"(,"tool_choice":"any")", "tool_choice"},
      {R"(,"tool_choice":"required")", "tool_choice"},
      {R"(,"tool_choice":1)", "tool_choice"},
      {R"(,"tool_choice":"required","tools":[)" + k_tool + "]", nullptr},
      {R"(,"response_format":{"type":"text"})", nullptr},
      {R"(,"response_format":{})", "response_format"},
      {R"(,"response_format":{"type":"xml"})", "response_format"},
      {R"(,"response_format":"text")", "response_format"},
      {R"(,"modalities":["text"])", nullptr},
      {R"(,"modalities":["text","audio"])", "modalities"},
      {R"(,"modalities":"text")", "modalities"},
      {R"(,"functions":[])", "functions"},
      {R"(,"function_call":"auto")", "function_call"},
      {R"(,"functions":null,"function_call":null)", nullptr},
      {R"(,"logprobs":true)", nullptr},
      {R"(,"logprobs":5)", "logprobs"},
      {R"(,"logprobs":true,"top_logprobs":20)", nullptr},
      {R"(,"logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"(,"top_logprobs":1)", "top_logprobs"},
  };
  testing::check_fields(k_head, cases, parse_chat_request);
}

TEST_CASE("chat: an error in a message names the message") {
  struct row {
    std::string message;
    const char* param;
  };
  const row rows[] = {
      {"7", "messages[4]"},
      {R"({"content":"x"})", "messages[4].role"},
      {R"({"role":"robot","content":"x"})", "messages[4].role"},
      {R"({"role":1,"content":"x"})", "messages[4].role"},
      {R"({"role":"user"})", "messages[4].content"},
      {R"({"role":"user","content":null})", "messages[4].content"},
      {R"({"role":"user","content":5})", "messages[4].content"},
      {R"({"role":"user","content":["x"]})", "messages[4].content"},
      {R"({"role":"user","content":[{"text":"x"}]})", "messages[4].content"},
      {R"({"role":"user","content":[{"type":"text"}]})", "messages[4].content"},
      {R"({"role":"user","content":[{"type":"input_audio"}]})", "messages[4].content"},
      {R"({"role":"assistant"})", "messages[4].content"},
      {R"({"role":"assistant","content":null,"tool_calls":[]})", "messages[4].content"},
      {R"({"role":"assistant","tool_calls":{}})", "messages[4].tool_calls"},
      {R"({"role":"assistant","tool_calls":[{"id":"a"}]})", "messages[4].tool_calls"},
      {R"({"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":{}}}]})",
       "messages[4].tool_calls"},
      {R"({"role":"tool","content":"x"})", "messages[4].tool_call_id"},
  };
  for (const auto& r : rows) {
    INFO(r.message);
    const auto parsed = parse_chat_request(fifth(r.message));
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().code == errc::bad_request);
    CHECK(parsed.error().param == r.param);
  }
}

TEST_CASE("chat: what is required is named") {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"messages":[{"role":"user","content":"x"}]})", "model"},
      {R"({"model":"","messages":[{"role":"user","content":"x"}]})", "model"},
      {R"({"model":3,"messages":[{"role":"user","content":"x"}]})", "model"},
      {R"({"model":"m"})", "messages"},
      {R"({"model":"m","messages":[]})", "messages"},
      {R"({"model":"m","messages":"hi"})", "messages"},
  };
  for (const auto& [body, param] : rows) {
    INFO(body);
    const auto parsed = parse_chat_request(body);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().param == param);
  }
}

TEST_CASE("chat: members of vLLM's are taken in range or refused by name") {
  const std::string begin = R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":9,)";
  for (const auto& [members, param] :
       {std::pair<std::string, std::string>{R"("repetition_penalty":1.1)", "repetition_penalty"},
        {R"("repetition_penalty":"x")", "repetition_penalty"},
        {R"("min_tokens":-1)", "min_tokens"},
        {R"("min_tokens":10)", "min_tokens"},
        {R"("min_tokens":1.5)", "min_tokens"},
        {R"("ignore_eos":1)", "ignore_eos"}}) {
    INFO(members);
    const auto parsed = parse_chat_request(begin + members + "}");
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().code == errc::bad_request);
    CHECK(parsed.error().param == param);
  }
  CHECK(parse_chat_request(begin + R"("repetition_penalty":1.0,"min_tokens":9,"ignore_eos":false})"));
}

TEST_CASE("chat: values arrive") {
  const auto parsed = parse_chat_request(R"({"model":"tiny","messages":[
      {"role":"developer","content":"rules"},
      {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","content":null,"tool_calls":[{"id":"functions.f:0","type":"function",
        "function":{"name":"f","arguments":"{\"x\": 1}"}}]},
      {"role":"tool","tool_call_id":"functions.f:0","content":"done"}],
      "tools":[{"type":"function", "function":{"name":"f", "z":1, "a":2}}],
      "stream":true,"stream_options":{"include_usage":true},"n":2,"max_tokens":9,"max_completion_tokens":7,
      "temperature":0.5,"top_p":0.25,"top_k":3,"min_p":0.125,"presence_penalty":-2,"frequency_penalty":2,
      "ignore_eos":true,"min_tokens":2,"repetition_penalty":1,
      "seed":-5,"logit_bias":{"12":-1.5},"stop":["x","y"],"logprobs":true,"top_logprobs":4,
      "weir_checkpoint_at":[64,7]})");
  REQUIRE(parsed.has_value());
  const auto& o = parsed->options;
  CHECK(o.model == "tiny");
  CHECK((o.stream && o.include_usage));
  CHECK(o.n == 2);
  CHECK(o.max_tokens == 7);
  CHECK(o.temperature == 0.5F);
  CHECK(o.top_p == 0.25F);
  CHECK(o.top_k == 3);
  CHECK(o.min_p == 0.125F);
  CHECK(o.ignore_eos);
  CHECK(o.min_tokens == 2);
  CHECK(o.presence_penalty == -2.0F);
  CHECK(o.frequency_penalty == 2.0F);
  CHECK(o.seed == -5);
  CHECK(o.checkpoint_at == std::vector<std::int32_t>{64, 7});
  CHECK(o.logit_bias == std::vector<std::pair<std::int32_t, float>>{{12, -1.5F}});
  CHECK(o.stop == std::vector<std::string>{"x", "y"});
  CHECK(o.top_logprobs == 4);
  const auto& m = parsed->prompt.messages;
  REQUIRE(m.size() == 4);
  CHECK(m[0].role == "developer");
  CHECK(m[1].content == "ab");
  REQUIRE(m[2].tool_calls.size() == 1);
  CHECK(m[2].tool_calls[0].arguments == R"({"x": 1})");
  CHECK(m[3].tool_call_id == "functions.f:0");
  CHECK(parsed->prompt.tools_json == R"([{"type":"function","function":{"name":"f","z":1,"a":2}}])");
}

TEST_CASE("chat: effort by the names that the model knows, and what it is told about the answer") {
  const std::pair<const char*, const char*> k_efforts[] = {
      {"none", "low"},  {"minimal", "low"}, {"low", "low"}, {"medium", "high"},
      {"high", "high"}, {"xhigh", "max"},   {"max", "max"}, {"", ""}};
  for (const auto& [asked, known] : k_efforts) {
    const auto parsed = parse_chat_request(k_head + R"(,"reasoning_effort":")" + asked + "\"}");
    REQUIRE(parsed.has_value());
    CHECK(parsed->prompt.thinking_effort == known);
    CHECK(parsed->prompt.thinking);
  }
  const auto told = parse_chat_request(
      k_head + R"(,"chat_template_kwargs":{"thinking":false},"tool_choice":"required","tools":[)" + k_tool +
      R"(],"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object"}}}})");
  REQUIRE(told.has_value());
  CHECK_FALSE(told->prompt.thinking);
  CHECK(told->prompt.tools == engine::text::tool_use::required);
  CHECK(told->prompt.format == engine::text::reply_format::json_schema);
  CHECK(told->prompt.schema_json == R"({"type":"object"})");
}

TEST_CASE("chat: no tools where none may be called") {
  const auto none = parse_chat_request(k_head + R"(,"tool_choice":"none","tools":[)" + k_tool + "]}");
  REQUIRE(none.has_value());
  CHECK(none->prompt.tools_json.empty());
}

}  // namespace weir::gateway::api
