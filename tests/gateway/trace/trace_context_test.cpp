#include "gateway/trace/trace_context.hpp"

#include <catch2/catch.hpp>
#include <string>

namespace weir::gateway::trace {
namespace {

const std::string k_trace = "0af7651916cd43dd8448eb211c80319c";
const std::string k_span = "b7ad6b7169203331";
const std::string k_header = "00-" + k_trace + "-" + k_span + "-01";

}  // namespace

TEST_CASE("a traceparent is read and written as it came") {
  const auto read = read_trace_parent(k_header);
  REQUIRE(read);
  CHECK(to_hex(read->trace) == k_trace);
  CHECK(to_hex(read->span) == k_span);
  CHECK(read->sampled);
  CHECK(write_trace_parent(*read) == k_header);
  CHECK_FALSE(read_trace_parent("00-" + k_trace + "-" + k_span + "-00")->sampled);
  CHECK(read_trace_parent("00-" + k_trace + "-" + k_span + "-03")->sampled);
  CHECK(read_trace_parent("cc-" + k_trace + "-" + k_span + "-01-what-comes"));
}

TEST_CASE("a malformed traceparent is none") {
  const struct {
    const char* name;
    std::string header;
  } rows[] = {
      {"empty", ""},
      {"short", k_header.substr(0, 54)},
      {"long", k_header + "0"},
      {"more than version 00 has", k_header + "-00"},
      {"later version, no dash", "cc-" + k_trace + "-" + k_span + "-011"},
      {"version ff", "ff-" + k_trace + "-" + k_span + "-01"},
      {"upper case", "00-" + k_trace + "-B7AD6B7169203331-01"},
      {"zeros for a trace", "00-" + std::string(32, '0') + "-" + k_span + "-01"},
      {"zeros for a span", "00-" + k_trace + "-" + std::string(16, '0') + "-01"},
      {"no digits", "00-" + k_trace + "-zzzzzzzzzzzzzzzz-01"},
      {"no digits in the flags", "00-" + k_trace + "-" + k_span + "-0g"},
      {"other separators", "00_" + k_trace + "_" + k_span + "_01"},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    CHECK_FALSE(read_trace_parent(r.header));
  }
}

TEST_CASE("what of a tracestate may pass") {
  CHECK(is_trace_state("vendor=a1b2,other=x y"));
  CHECK_FALSE(is_trace_state(""));
  CHECK_FALSE(is_trace_state("a=b\r\nx: y"));
  CHECK_FALSE(is_trace_state("a=\x80"));
  CHECK(is_trace_state(std::string(k_trace_state_bytes_max, 'a')));
  CHECK_FALSE(is_trace_state(std::string(k_trace_state_bytes_max + 1, 'a')));
}

TEST_CASE("made ids are never all zeros") {
  CHECK(make_trace_id(0, 0) != trace_id{});
  CHECK(make_span_id(0) != span_id{});
  CHECK(make_trace_id(1, 2) != make_trace_id(2, 1));
}

}  // namespace weir::gateway::trace
