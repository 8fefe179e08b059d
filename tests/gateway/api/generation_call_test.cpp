#include "gateway/api/generation_call.hpp"

#include <catch2/catch.hpp>

namespace weir::gateway::api {
namespace {

result<generation_call> read(const std::string& fields) {
  return read_generation_call(generation_kind::chat,
                              R"({"model":"m","messages":[{"role":"user","content":"hi"}])" + fields + "}");
}

}  // namespace

TEST_CASE("a call keeps its body as it came, unknown fields and all") {
  const std::string body = R"({"model":"m", "vendor" : {"x":[1,2.50]}, "messages":[{"role":"narrator"}],)"
                           R"("tools":[{"type":"custom"}],"n":99,"temperature":"hot"})";
  const auto call = read_generation_call(generation_kind::chat, body);
  REQUIRE(call.has_value());
  CHECK(call->body == body);
  CHECK(call->model == "m");
  CHECK_FALSE(call->stream);
}

TEST_CASE("a call is refused where the gateway itself cannot read it") {
  struct row {
    const char* body;
    const char* param;
  };
  const row rows[] = {
      {"", ""},
      {"[]", ""},
      {R"({"model":"m","model":"n"})", ""},
      {R"({"messages":[]})", "model"},
      {R"({"model":"","messages":[]})", "model"},
      {R"({"model":7})", "model"},
      {R"({"model":"m","stream":"yes"})", "stream"},
      {R"({"model":"m","stream_options":[]})", "stream_options"},
      {R"({"model":"m","stream_options":{"include_usage":1}})", "stream_options.include_usage"},
  };
  for (const auto& r : rows) {
    INFO(r.body);
    const auto call = read_generation_call(generation_kind::completions, r.body);
    REQUIRE_FALSE(call.has_value());
    CHECK(call.error().code == errc::bad_request);
    CHECK(call.error().param == r.param);
  }
}

TEST_CASE("what a target must be able to do") {
  struct row {
    const char* fields;
    bool image;
    bool structured;
    bool forced;
  };
  const row rows[] = {
      {"", false, false, false},
      {R"(,"response_format":null,"tool_choice":null)", false, false, false},
      {R"(,"response_format":{"type":"text"})", false, false, false},
      {R"(,"response_format":{"type":"json_object"})", false, true, false},
      {R"(,"response_format":{"type":"json_schema"})", false, true, false},
      {R"(,"response_format":"json")", false, false, false},
      {R"(,"tool_choice":"auto")", false, false, false},
      {R"(,"tool_choice":"none")", false, false, false},
      {R"(,"tool_choice":"required")", false, false, true},
      {R"(,"tool_choice":{"type":"function","function":{"name":"f"}})", false, false, true},
      {R"(,"tool_choice":{"type":"allowed_tools","mode":"auto"})", false, false, false},
      {R"(,"tool_choice":{"type":"allowed_tools","mode":"required"})", false, false, true},
  };
  for (const auto& r : rows) {
    INFO(r.fields);
    const auto call = read(r.fields);
    REQUIRE(call.has_value());
    CHECK(call->facts.needs_image == r.image);
    CHECK(call->facts.needs_structured_output == r.structured);
    CHECK(call->facts.needs_forced_tool == r.forced);
  }
  const auto image = read_generation_call(
      generation_kind::chat, R"({"model":"m","messages":[{"role":"system","content":"s"},{"role":"user",)"
                             R"("content":[{"type":"text","text":"t"},{"type":"image_url"}]}]})");
  REQUIRE(image.has_value());
  CHECK(image->facts.needs_image);
}

TEST_CASE("stream and usage wishes") {
  const auto call = read(R"(,"stream":true,"stream_options":{"include_usage":true,"x":1})");
  REQUIRE(call.has_value());
  CHECK(call->stream);
  CHECK(call->include_usage);
  const auto other = read(R"(,"stream":null,"stream_options":{"include_usage":null})");
  REQUIRE(other.has_value());
  CHECK_FALSE(other->stream);
  CHECK_FALSE(other->include_usage);
}

TEST_CASE("a field that bounds the cost is a whole number, or the call is refused by its name") {
  const std::string large = R"(,"seed":123456789012345678901234567890)";  // numbers are tamed
  for (const std::string key : {"n", "best_of", "max_tokens", "max_completion_tokens", "max_output_tokens",
                                "max_new_tokens", "n_predict", "n_cmpl"}) {
    for (const std::string value : {"\"100\"", "true", "[5]", "{}", "1.5", "1e-2", "\"\"", "-0.5"}) {
      for (const auto& more : {std::string(), large}) {
        INFO(key << ": " << value << more);
        const auto call = read(",\"" + key + "\":" + value + more);
        REQUIRE_FALSE(call.has_value());
        CHECK(call.error().code == errc::bad_request);
        CHECK(call.error().param == key);
      }
    }
    CHECK(read(",\"" + key + "\":null").has_value());
  }
}

TEST_CASE("n as a string, or as 1e2 beside a number of more than 64 bits, is no way around a budget") {
  const std::string large = R"(,"seed":123456789012345678901234567890)";
  struct row {
    const char* value;
    std::int64_t count;
  };
  for (const auto& r : {row{"100", 100}, row{"1e2", 100}, row{"100.0", 100}, row{"1000e-1", 100}, row{"0", 1},
                        row{"-3", 1}}) {
    for (const auto& more : {std::string(), large}) {
      INFO(r.value << more);
      const auto call = read(",\"max_tokens\":" + std::string(r.value) + ",\"n\":" + r.value + more);
      REQUIRE(call.has_value());
      CHECK(call->choices == r.count);
      CHECK(call->output_tokens_max == (r.count == 1 ? 0 : r.count));
    }
  }
  const auto prompts =
      read_generation_call(generation_kind::completions,
                           R"({"model":"m","prompt":["a","b"],"prompt_embeds":["c"],"best_of":2e0})");
  REQUIRE(prompts.has_value());
  CHECK(prompts->choices == 6);
}

TEST_CASE("whether the body bounds the output in a field that every target obeys") {
  struct row {
    const char* fields;
    bool chat;
    bool completions;
    std::vector<std::string_view> loose;
  };
  const row rows[] = {
      {"", false, false, {}},
      {R"(,"max_tokens":5)", true, true, {}},
      {R"(,"max_completion_tokens":5)", true, false, {}},
      {R"(,"max_new_tokens":5)", false, false, {}},
      {R"(,"max_tokens":5,"n_predict":9)", true, true, {}},
      {R"(,"max_tokens":null)", false, false, {"max_tokens"}},
      {R"(,"max_tokens":-1)", false, false, {"max_tokens"}},
      {R"(,"max_tokens":5,"max_completion_tokens":null)", false, false, {"max_completion_tokens"}},
      {R"(,"max_tokens":5,"n_predict":-1)", false, false, {"n_predict"}},
  };
  for (const auto& r : rows) {
    INFO(r.fields);
    const auto body = std::string(R"({"model":"m")") + r.fields + "}";
    const auto chat = read_generation_call(generation_kind::chat, body);
    const auto completions = read_generation_call(generation_kind::completions, body);
    REQUIRE(chat.has_value());
    REQUIRE(completions.has_value());
    CHECK(chat->output_bounded == r.chat);
    CHECK(completions->output_bounded == r.completions);
    CHECK(chat->loose_fields == r.loose);
  }
  const std::string scored = R"({"model":"m","max_tokens":0})";
  CHECK_FALSE(read_generation_call(generation_kind::chat, scored)->output_bounded);
  CHECK(read_generation_call(generation_kind::completions, scored)->output_bounded);
}

TEST_CASE("an embeddings request has a model and an input, and no answer to bound") {
  const auto call = read_generation_call(generation_kind::embeddings,
                                         R"({"model":"m","input":["a"],"stream":true,"max_tokens":"x"})");
  REQUIRE(call.has_value());
  CHECK(call->facts.asks == policy::endpoint::embeddings);
  CHECK(call->output_bounded);
  CHECK_FALSE(call->stream);
  for (const char* body : {R"({"model":"m"})", R"({"model":"m","input":null})"}) {
    const auto none = read_generation_call(generation_kind::embeddings, body);
    REQUIRE_FALSE(none.has_value());
    CHECK(none.error().param == "input");
  }
}

TEST_CASE("a responses request is read for what routing and limits need") {
  const auto call = read_generation_call(
      generation_kind::responses,
      R"({"model":"m","stream":true,"max_output_tokens":9,"text":{"format":{"type":"json_schema"}},)"
      R"("tools":[{"type":"function","name":"f"}],"tool_choice":"required",)"
      R"("input":[{"role":"user","content":[{"type":"input_image","image_url":"x"},)"
      R"({"type":"input_file"}]}]})");
  REQUIRE(call.has_value());
  CHECK(call->facts.asks == policy::endpoint::responses);
  CHECK(call->stream);
  CHECK(call->include_usage);
  CHECK(call->output_tokens_max == 9);
  CHECK(call->output_bounded);
  CHECK(call->has_tools);
  CHECK(call->media_parts == 2);
  CHECK(call->facts.needs_image);
  CHECK(call->facts.needs_structured_output);
  CHECK(call->facts.needs_forced_tool);
  const auto chat_bound = read_generation_call(generation_kind::responses, R"({"model":"m","max_tokens":9})");
  CHECK_FALSE(chat_bound->output_bounded);
}

TEST_CASE("a responses request may not lean on what a target keeps or does by itself") {
  const struct {
    const char* param;
    const char* json;
  } rows[] = {
      {"previous_response_id", R"("resp_1")"},
      {"conversation", R"("conv_1")"},
      {"conversation", R"({"id":"conv_1"})"},
      {"prompt", R"({"id":"p"})"},
      {"background", "true"},
      {"tools", R"([{"type":"function"},{"type":"mcp"}])"},
      {"tools", R"([{"type":"code_interpreter"}])"},
      {"tools", R"([{"type":"namespace","tools":[{"type":"mcp"}]}])"},
      {"tools", R"([{"type":"namespace","tools":[{"type":"namespace","tools":[]}]}])"},
      {"tools", R"([{"type":7}])"},
      {"tools", R"([1])"},
  };
  for (const auto& r : rows) {
    INFO(r.param << " " << r.json);
    const auto body = std::string(R"({"model":"m","input":"x",")") + r.param + "\":" + r.json + "}";
    const auto call = read_generation_call(generation_kind::responses, body);
    REQUIRE_FALSE(call.has_value());
    CHECK(call.error().param == r.param);
  }
  const auto plain = read_generation_call(
      generation_kind::responses,
      R"({"model":"m","input":"x","previous_response_id":null,"background":false,"tools":[]})");
  CHECK(plain.has_value());
  const auto coding = read_generation_call(
      generation_kind::responses,
      R"({"model":"m","input":"x","tools":[{"type":"namespace","tools":[{"type":"function","name":"f"}]},)"
      R"({"type":"web_search","external_web_access":true},{"type":"tool_search"}]})");
  REQUIRE(coding.has_value());
  CHECK(coding->searches);
  CHECK_FALSE(plain->searches);
}

TEST_CASE("counts beyond what anybody means are refused, however they are written") {
  for (const char* value : {"18446744073709551616", "123456789012345678901234567890", "1E300", "1e309",
                            "-9223372036854775809", "-1e400", "4294967296"}) {
    for (const char* key : {"max_tokens", "n", "max_completion_tokens", "best_of"}) {
      INFO(key << " " << value);
      const auto call = read_generation_call(generation_kind::chat,
                                             std::string(R"({"model":"m",")") + key + "\":" + value + "}");
      REQUIRE_FALSE(call.has_value());
      CHECK(call.error().param == key);
    }
  }
  CHECK_FALSE(read_generation_call(generation_kind::chat, R"({"model":"m","n":16385})").has_value());
  CHECK(read_generation_call(generation_kind::chat, R"({"model":"m","n":16384})").has_value());
}

}  // namespace weir::gateway::api
