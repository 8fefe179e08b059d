// What binds an answer: which requests do, to what, and which fields are at fault.
#include "gateway/api/answer_form.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "gateway/api/chat_types.hpp"

namespace {

using namespace weir::gateway;
using weir::engine::structure::call_rule;
using weir::engine::structure::text_form;

const std::string k_head = R"({"model":"m","messages":[{"role":"user","content":"x"}])";
const std::string k_tools =
    R"(,"tools":[{"type":"function","function":{"name":"add","parameters":{"type":"object"}}},)"
    R"({"type":"function","function":{"name":"get","strict":false}}])";
const std::string k_strict = R"(,"tools":[{"type":"function","function":{"name":"add","strict":true,)"
                             R"("parameters":{"type":"object"}}}])";

result<api::chat_request> parse(const std::string& fields) {
  return api::parse_chat_request(k_head + fields + "}");
}

}  // namespace

TEST_CASE("requests whose answers are bound to something", "[api]") {
  const struct {
    std::string fields;
    bool bound;
    text_form text = text_form::free;
    call_rule calls = call_rule::forbidden;
    std::size_t functions = 0;
  } rows[] = {
      {"", false},
      {R"(,"response_format":{"type":"text"})", false},
      {R"(,"response_format":{"type":"json_object"})", true, text_form::json_object},
      {R"(,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object"}}})",
       true, text_form::json_schema},
      {R"(,"response_format":{"type":"json_schema","json_schema":{"name":"a","strict":null}})", true,
       text_form::json_schema},
      {k_tools, false},
      {k_tools + R"(,"tool_choice":"auto")", false},
      {k_tools + R"(,"tool_choice":"none","parallel_tool_calls":false)", false},
      {k_tools + R"(,"parallel_tool_calls":false)", true, text_form::free, call_rule::allowed, 2},
      {k_strict, true, text_form::free, call_rule::allowed, 1},
      {k_tools + R"(,"tool_choice":"required")", true, text_form::none, call_rule::required, 2},
      {k_tools + R"(,"tool_choice":{"type":"function","function":{"name":"get"}})", true, text_form::none,
       call_rule::required, 1},
      {k_tools + R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[)" +
           R"({"type":"function","function":{"name":"add"}}]}})",
       true, text_form::free, call_rule::allowed, 1},
      {k_tools + R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[)" +
           R"({"type":"function","function":{"name":"add"}}]}})",
       true, text_form::none, call_rule::required, 1},
      {k_tools + R"(,"response_format":{"type":"json_object"})", true, text_form::json_object,
       call_rule::allowed, 2},
      {k_tools + R"(,"response_format":{"type":"json_object"},"tool_choice":"none")", true,
       text_form::json_object},
      {k_tools + R"(,"response_format":{"type":"json_object"},"tool_choice":"required")", true,
       text_form::none, call_rule::required, 2},
  };
  for (const auto& r : rows) {
    INFO(r.fields);
    const auto request = parse(r.fields);
    INFO((request ? std::string() : request.error().message));
    REQUIRE(request);
    REQUIRE(request->answer.has_value() == r.bound);
    if (!r.bound) continue;
    CHECK(request->answer->spec.text == r.text);
    CHECK(request->answer->spec.calls == r.calls);
    CHECK(request->answer->spec.functions.size() == r.functions);
    CHECK(request->answer->tool_indices.size() >= r.functions);
  }
}

TEST_CASE("what is at fault in a wish for form", "[api]") {
  const struct {
    std::string fields;
    const char* param;
  } rows[] = {
      {R"(,"response_format":{"type":"json_schema"})", "response_format.json_schema"},
      {R"(,"response_format":{"type":"json_schema","json_schema":{}})", "response_format.json_schema.name"},
      {R"(,"response_format":{"type":"json_schema","json_schema":{"name":"a b"}})",
       "response_format.json_schema.name"},
      {R"(,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":[]}})",
       "response_format.json_schema.schema"},
      {R"(,"response_format":{"type":"json_schema","json_schema":{"name":"a","strict":1}})",
       "response_format.json_schema.strict"},
      {k_tools + R"(,"tool_choice":{"type":"function","function":{"name":"mul"}})", "tool_choice"},
      {k_tools + R"(,"tool_choice":{"type":"function"})", "tool_choice"},
      {k_tools + R"(,"tool_choice":{"type":"custom","custom":{"name":"add"}})", "tool_choice"},
      {k_tools + R"(,"tool_choice":{"type":"allowed_tools"})", "tool_choice"},
      {R"(,"tool_choice":{"type":"function","function":{"name":"add"}})", "tool_choice"},
      {k_tools + R"(,"parallel_tool_calls":1)", "parallel_tool_calls"},
      {R"(,"tools":[{"type":"function","function":{"name":"f","parameters":"x"}}])",
       "tools[0].function.parameters"},
      {R"(,"tools":[{"type":"function","function":{"name":"f","strict":"x"}}])", "tools[0].function.strict"},
  };
  for (const auto& r : rows) {
    INFO(r.fields);
    const auto request = parse(r.fields);
    REQUIRE_FALSE(request);
    CHECK(request.error().code == errc::bad_request);
    CHECK(request.error().param == r.param);
  }
}

TEST_CASE("a schema that is refused is named as the client knows it", "[api]") {
  const auto one = parse(k_tools + R"(,"tool_choice":{"type":"function","function":{"name":"get"}})");
  REQUIRE(one);
  error why = api::to_error(*one->answer, {0, "'#': no"});
  CHECK(why.param == "tools[1].function.parameters");
  CHECK(why.message == "Invalid schema for function 'get': '#': no");
  const auto two = parse(R"(,"response_format":{"type":"json_schema","json_schema":{"name":"person"}})");
  REQUIRE(two);
  why = api::to_error(*two->answer, {-1, "'#': no"});
  CHECK(why.param == "response_format");
  CHECK(why.message == "Invalid schema for response_format 'person': '#': no");
}

TEST_CASE("requests that bind alike have one key", "[api]") {
  const auto key = [](const std::string& fields) { return parse(fields)->answer->key(); };
  CHECK(key(k_strict) == key(k_strict + R"(,"temperature":1)"));
  CHECK(key(k_strict) != key(k_strict + R"(,"parallel_tool_calls":false)"));
  CHECK(key(k_strict) != key(k_strict + R"(,"tool_choice":"required")"));
  CHECK(key(R"(,"response_format":{"type":"json_object"})") !=
        key(R"(,"response_format":{"type":"json_schema","json_schema":{"name":"a"}})"));
}
