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

}  // namespace weir::gateway::api
