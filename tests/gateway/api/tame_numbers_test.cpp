#include <catch2/catch.hpp>

#include "gateway/api/generation_call.hpp"
#include "gateway/api/json.hpp"

namespace weir::gateway::api {

TEST_CASE("numbers that JSON allows and 64 bits do not are tamed in place") {
  struct row {
    const char* name;
    std::string text;
    std::string tamed;  // empty: untouched
  };
  const std::string digits(400, '9');
  const row rows[] = {
      {"nothing", "", ""},
      {"small ones", R"({"a":0,"b":-1,"c":1.25,"d":123456789012345})", ""},
      {"words", R"({"a":true,"b":null})", ""},
      {"20 digits", R"({"a":12345678901234567890})", R"({"a":0                   })"},
      {"below zero", R"([-1234567890123456789])", R"([0                   ])"},
      {"exponent", R"({"a":1e999,"b":2E+400})", R"({"a":0    ,"b":0     })"},
      {"exponent and spaces", "[ 1e999\t]", "[ 0    \t]"},
      {"400 digits", "[" + digits + "]", "[0" + std::string(399, ' ') + "]"},
      {"long fraction", "[0." + digits + "]", "[0" + std::string(401, ' ') + "]"},
      {"alone", "1e999", "0    "},
      {"in text", R"({"1e999":"12345678901234567890","b":"\"1e999"})", ""},
      {"in text and out of it", R"(["1e999",1e999,"\\",1e999])", R"(["1e999",0    ,"\\",0    ])"},
      {"leading zero", "[012345678901234567890]", ""},
      {"sign alone", "[-]", ""},
      {"plus", "[+12345678901234567890]", "[+0                   ]"},
      {"no fraction", "[12345678901234567890.]", ""},
      {"no exponent", "[12345678901234567890e]", ""},
      {"exponent sign alone", "[1e+]", ""},
      {"two points", "[1.2.345678901234567]", ""},
      {"hexadecimal", "[0x1234567890123456]", ""},
      {"a letter behind", "[12345678901234567890x]", ""},
      {"no end of text", R"(["12345678901234567890)", ""},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    std::string text = r.text;
    CHECK(tame_numbers(text) == !r.tamed.empty());
    CHECK(text == (r.tamed.empty() ? r.text : r.tamed));
  }
}

TEST_CASE("a call with numbers of any size keeps its body") {
  const std::string rest = R"(,"model":"m","stream":true,"tool_choice":"required"})";
  for (const std::string number :
       {"123456789012345678901234567890", "-99999999999999999999", "1e999", "1E-999"}) {
    INFO(number);
    const std::string body = "{\"seed\": " + number + rest;
    const auto call = read_generation_call(generation_kind::chat, body);
    REQUIRE(call.has_value());
    CHECK(call->body == body);
    CHECK(call->model == "m");
    CHECK(call->stream);
    CHECK(call->facts.needs_forced_tool);
  }
  for (const std::string value :
       {"+12345678901234567890", "01e999", "1e999,\"seed\":1", "1e999}{\"x\":1", "NaN"}) {
    INFO(value);
    const auto call = read_generation_call(generation_kind::chat, "{\"seed\": " + value + rest);
    REQUIRE_FALSE(call.has_value());
    CHECK(call.error().code == errc::bad_request);
  }
  const auto call = read_generation_call(generation_kind::chat, R"({"model":1e999})");
  REQUIRE_FALSE(call.has_value());
  CHECK(call.error().param == "model");
}

}  // namespace weir::gateway::api
