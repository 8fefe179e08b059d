#include "gateway/trace/otlp_json.hpp"

#include <simdjson.h>

#include <catch2/catch.hpp>
#include <limits>
#include <string>

namespace weir::gateway::trace {
namespace {

span one() {
  return {.trace = make_trace_id(1, 2),
          .id = make_span_id(3),
          .parent = make_span_id(4),
          .state = "v=1",
          .name = "chat fox",
          .kind = span_kind::client,
          .begun_unix_ns = 1'700'000'000'123'456'789,
          .ended_unix_ns = 1'700'000'001'000'000'000,
          .attributes = {{"weir.target", std::string("r\"1")},
                         {"gen_ai.usage.input_tokens", std::int64_t{9'007'199'254'740'993}},
                         {"gen_ai.response.time_to_first_chunk", 0.25},
                         {"nan", std::numeric_limits<double>::quiet_NaN()},
                         {"gen_ai.request.stream", true}},
          .error = "deadline_exceeded"};
}

}  // namespace

TEST_CASE("spans as OTLP's JSON") {
  const span list[] = {one(), span{.trace = make_trace_id(1, 2), .id = make_span_id(5), .name = "root"}};
  const auto text = to_otlp_json({.service_version = "1", .instance = "i"}, list);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  REQUIRE_FALSE(parser.parse(text).get(root));
  const auto at = [&](const char* path) { return simdjson::minify(root.at_pointer(path).value()); };
  CHECK(at("/resourceSpans/0/resource/attributes/0") ==
        R"({"key":"service.name","value":{"stringValue":"weir"}})");
  const std::string first = "/resourceSpans/0/scopeSpans/0/spans/0";
  const auto of = [&](const std::string& rest) { return at((first + rest).c_str()); };
  CHECK(of("/traceId") == '"' + to_hex(make_trace_id(1, 2)) + '"');
  CHECK(of("/parentSpanId") == '"' + to_hex(make_span_id(4)) + '"');
  CHECK(of("/kind") == "3");
  CHECK(of("/startTimeUnixNano") == R"("1700000000123456789")");
  CHECK(of("/attributes/0/value/stringValue") == R"("r\"1")");
  CHECK(of("/attributes/1/value/intValue") == R"("9007199254740993")");
  CHECK(of("/attributes/3/value/doubleValue") == "0");
  CHECK(of("/attributes/4/value/boolValue") == "true");
  CHECK(of("/status") == R"({"code":2,"message":"deadline_exceeded"})");
  simdjson::dom::element none;
  CHECK(root.at_pointer("/resourceSpans/0/scopeSpans/0/spans/1/parentSpanId").get(none));
  CHECK(root.at_pointer("/resourceSpans/0/scopeSpans/0/spans/1/status").get(none));
}

}  // namespace weir::gateway::trace
