#include "engine/text/python_json.hpp"

#include <catch2/catch.hpp>
#include <tuple>

namespace weir::engine::text {
namespace {

struct row {
  const char* name;
  std::string json;
  std::string text;
};

// Right-hand sides are the output of Python 3.11: json.dumps(json.loads(x), ensure_ascii=False,
// separators=(',', ':')).
const row k_rows[] = {
    {"white space", " [ 1 , { \"a\" : null } , true , false ]\n", R"([1,{"a":null},true,false])"},
    {"key order", R"({"b":1,"a":{"d":1,"c":2}})", R"({"b":1,"a":{"d":1,"c":2}})"},
    {"repeated keys", R"({"a":1,"b":2,"a":3})", R"({"a":3,"b":2})"},
    {"escapes that stay", R"(["\"\\\n\r\t\f\b\u0000\u001f"])", R"(["\"\\\n\r\t\f\b\u0000\u001f"])"},
    {"escapes that go", R"(["\/\u0041\u00e9\ud83d\ude00\u007f"])", "[\"/Aé😀\x7F\"]"},
    {"raw text", "[\"é中\xE2\x80\xA8<&'\"]", "[\"é中\xE2\x80\xA8<&'\"]"},
    {"integers of any length", "[0,-0,-12,123456789012345678901234567890]",
     "[0,0,-12,123456789012345678901234567890]"},
    {"floats", "[1.0,-0.0,0.1,1e5,1E15,1e16,1.5e-4,0.00001,123456.789e3]",
     "[1.0,-0.0,0.1,100000.0,1000000000000000.0,1e+16,0.00015,1e-05,123456789.0]"},
    {"float extremes", "[1e400,-1e400,1e-400,5e-324,1.7976931348623157e308,0.30000000000000004]",
     "[Infinity,-Infinity,0.0,5e-324,1.7976931348623157e+308,0.30000000000000004]"},
    {"empty ones", R"([{},[],""])", R"([{},[],""])"},
};

TEST_CASE("JSON as Python writes it") {
  for (const auto& r : k_rows) {
    INFO(r.name);
    const auto got = to_python_json(r.json);
    REQUIRE(got);
    CHECK(got->text == r.text);
    CHECK(got->is_array == (r.text[0] == '['));
  }
  CHECK(to_python_json("[ ]")->is_empty);
  CHECK_FALSE(to_python_json("[0]")->is_empty);
}

TEST_CASE("sorted and spaced JSON") {
  const std::string json = R"({"b":[1,{"z":0,"é":1,"Z":2}],"a":{},"b2":"x, y: z"})";
  CHECK(to_python_json(json, {.sorted = true})->text ==
        R"({"a":{},"b":[1,{"Z":2,"z":0,"é":1}],"b2":"x, y: z"})");
  CHECK(to_python_json(json, {.spaced = true})->text ==
        R"({"b": [1, {"z": 0, "é": 1, "Z": 2}], "a": {}, "b2": "x, y: z"})");
}

TEST_CASE("members of an object") {
  const auto got = to_python_members(
      R"({"s":"raw \"é\"\n","n":1.50,"t":true,"o":{"a":[1,2]},"l":[],"z":null,"s":"last","":""})");
  REQUIRE(got);
  const std::vector<std::tuple<std::string, std::string, std::string>> expected{
      {"s", "string", "last"},  {"n", "number", "1.5"},
      {"t", "boolean", "true"}, {"o", "object", "{\"a\": [1, 2]}"},
      {"l", "array", "[]"},     {"z", "null", "null"},
      {"", "string", ""}};
  std::vector<std::tuple<std::string, std::string, std::string>> members;
  for (const auto& m : *got) members.emplace_back(m.key, m.type, m.text);
  CHECK(members == expected);
  CHECK(to_python_members(R"({"a":"raw \"é\"\n"})")->at(0).text == "raw \"é\"\n");
  for (const char* json : {"[]", "1", "\"a\"", "", "{", "{}x", "{\"\":", "{\"a\":tru}"})
    CHECK_FALSE(to_python_members(json));
}

TEST_CASE("what is no JSON") {
  const std::string deep =
      std::string(k_python_json_depth_max + 1, '[') + std::string(k_python_json_depth_max + 1, ']');
  for (const std::string json :
       {"",       " ",     "1",         "\"a\"",   "[",         "[1,]",          "{\"a\"}",    "{\"a\":}",
        "[01]",   "[1.]",  "[.5]",      "[1e]",    "[+1]",      "[--1]",         "[1 2]",      "[1]x",
        "[1][2]", "[tru]", "[nul]",     "[nulll]", "[\"\\x\"]", "[\"\\ud800\"]", "[\"\xFF\"]", "[NaN]",
        "{1:2}",  "[1}",   deep.c_str()}) {
    INFO(json);
    const auto got = to_python_json(json);
    REQUIRE_FALSE(got);
    CHECK(got.error().code == errc::bad_request);
  }
}

}  // namespace
}  // namespace weir::engine::text
