#include <catch2/catch.hpp>
#include <span>
#include <string>

#include "gateway/api/generation_call.hpp"
#include "gateway/api/json.hpp"

namespace weir::gateway::api {

struct row {
  const char* name;
  std::string text;
  std::string tamed;   // empty: untouched
  bool valid = false;  // JSON, which the parser then takes
};

void check(std::span<const row> rows) {
  for (const auto& r : rows) {
    INFO(r.name);
    std::string text = r.text;
    CHECK(tame_numbers(text) == !r.tamed.empty());
    CHECK(text == (r.tamed.empty() ? r.text : r.tamed));
    if (r.valid) CHECK(json_document::parse("{\"x\":" + text + "}").has_value());
  }
}

TEST_CASE("numbers that JSON allows and 64 bits do not are tamed in place") {
  const std::string digits(400, '9');
  const row rows[] = {
      {"nothing", "", ""},
      {"small ones", R"({"a":0,"b":-1,"c":1.25,"d":123456789012345})", "", true},
      {"words", R"({"a":true,"b":null})", "", true},
      {"18 digits", R"({"a":999999999999999999,"b":-100000000000000000})", "", true},
      {"exponents that fit", R"({"n":1e2,"a":-1E307,"b":1e-999,"c":0e999,"d":0.000})", "", true},
      {"long fractions", "[0." + digits + ",1.000000000000000000000000001]", "", true},
      {"20 digits", R"({"a":12345678901234567890})", R"({"a":9e99                })", true},
      {"below zero", R"([-1234567890123456789])", R"([-9e99               ])", true},
      {"exponent", R"({"a":1e999,"b":2E+400})", R"({"a":9e99 ,"b":9e99  })", true},
      {"exponent and fraction", "[-1.25e999,0.001e311,0.001e310]", "[-9e99    ,9e99     ,0.001e310]", true},
      {"exponent of 30 digits", "[1e" + digits.substr(0, 30) + "]", "[9e99" + std::string(28, ' ') + "]",
       true},
      {"exponent and spaces", "[ 1e999\t]", "[ 9e99 \t]", true},
      {"400 digits", "[" + digits + "]", "[9e99" + std::string(396, ' ') + "]", true},
      {"400 digits and a fraction", "[" + digits + ".5]", "[9e99" + std::string(398, ' ') + "]", true},
      {"alone", "1e999", "9e99 ", true},
      {"in text", R"({"1e999":"12345678901234567890","b":"\"1e999"})", "", true},
      {"in text and out of it", R"(["1e999",1e999,"\\",1e999])", R"(["1e999",9e99 ,"\\",9e99 ])", true},
  };
  check(rows);
}

TEST_CASE("what is no number stays for the parser to refuse") {
  const row rows[] = {
      {"leading zero", "[012345678901234567890]", ""},
      {"sign alone", "[-]", ""},
      {"plus", "[+12345678901234567890]", "[+9e99                ]"},
      {"no fraction", "[12345678901234567890.]", ""},
      {"no exponent", "[12345678901234567890e]", ""},
      {"exponent sign alone", "[1e+]", ""},
      {"two points", "[1.2.345678901234567]", ""},
      {"hexadecimal", "[0x1234567890123456]", ""},
      {"a letter behind", "[12345678901234567890x]", ""},
      {"no end of text", R"(["12345678901234567890)", ""},
  };
  check(rows);
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
