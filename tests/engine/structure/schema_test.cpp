// Schemas by keyword: what they let through, and what they refuse to be compiled for.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/engine/structure/accepts.hpp"

namespace {

using weir::engine::structure::schema_under_test;

struct row {
  const char* schema;
  std::vector<const char*> yes;
  std::vector<const char*> no;
};

void check(const std::vector<row>& rows) {
  for (const row& r : rows) {
    INFO(r.schema);
    schema_under_test schema(r.schema);
    INFO(schema.refusal());
    REQUIRE(schema.compiled());
    for (const char* text : r.yes) {
      INFO(text);
      CHECK(schema.accepts(text));
    }
    for (const char* text : r.no) {
      INFO(text);
      CHECK_FALSE(schema.accepts(text));
    }
  }
}

}  // namespace

TEST_CASE("values of every type, and nothing that is no JSON", "[structure]") {
  check({
      {"{}",
       {"null", "true", "false", "0", "-1.5e+3", "\"\"", "[]", "{}", R"([1,"a",{"b":[null]}])", "[ 1, 2 ]",
        "{\n  \"a\": 1,\n  \"b\": []\n}"},
       {"",      "nul",        "01",      "1.",    ".5",         "+1", "1e", "\"",
        "[1,]",  "[,1]",       "{\"a\"}", "{a:1}", "{\"a\":1,}", "1 ", " 1", "[1 ,2]",
        "[  1]", "{\"a\" :1}", "'a'",     "tru",   "nulll",      "[1", "NaN"}},
      {R"({"type":"string"})",
       {R"("")", R"("é€😀")", R"("\"\\\/\b\f\n\r\t")", R"("\u00e9\ud83d\ude00\uD83D\uDE00")"},
       {"\"\t\"", "\"\n\"", R"("\x")", R"("\u12")", R"("\ud83d")", R"("\ude00")", R"("\ud83dx")", "\"\xff\"",
        "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf5\x80\x80\x80\"", "\"\xe2\x82\"", "1"}},
      {R"({"type":["integer","null"]})", {"1", "-20", "0", "null"}, {"1.5", "1e2", "\"1\"", "00"}},
      {R"({"type":"number"})", {"1", "1.5", "-0.25", "1E5", "1.0"}, {"1.", "true"}},
      {R"({"type":"boolean"})", {"true", "false"}, {"0", "null"}},
  });
}

TEST_CASE("objects: keys in the schema's order, required ones there, others as allowed", "[structure]") {
  check({
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},)"
       R"("required":["a","b"],)"
       R"("additionalProperties":false})",
       {R"({"a":1,"b":"x"})", R"({ "a": 1, "b": "x" })"},
       {R"({"b":"x","a":1})", R"({"a":1})", "{}", R"({"a":1,"b":"x","c":1})", R"({"a":"1","b":"x"})",
        R"({"a":1,"a":1,"b":"x"})"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},)"
       R"("c":{"type":"null"}},)"
       R"("required":["b"],"additionalProperties":false})",
       {R"({"b":""})", R"({"a":1,"b":""})", R"({"a":1,"b":"","c":null})", R"({"b":"","c":null})"},
       {R"({"a":1})", R"({"c":null})", R"({"a":1,"c":null})", R"({"b":"",})", "{}"}},
      {R"({"type":"object","properties":{"ab":{"type":"integer"},"ac":{}}})",
       {R"({"ab":1,"x":[]})", R"({"a":null})", R"({"abc":"","a\n":1})", R"({"":0})", R"({"é":0})",
        R"({"ab":1,"ac":2,"ad":{}})"},
       {R"({"ab":""})", R"({"x":1,"ab":2})", R"({"\u0061b":""})", R"({"a\u0062":""})"}},
      {R"({"type":"object","additionalProperties":{"type":"integer"},"required":["k"]})",
       {R"({"k":1})", R"({"k":1,"l":2})"},
       {"{}", R"({"k":""})", R"({"l":1})", R"({"k":1,"l":""})"}},
      {R"({"type":"object","properties":{"q\"\\\n":{"const":1}},"additionalProperties":false})",
       {R"({"q\"\\\n":1})", "{}"},
       {R"({"q":1})"}},
  });
}

TEST_CASE("arrays: counts, tuples, nesting", "[structure]") {
  check({
      {R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3})",
       {"[1,2]", "[1,2,3]", "[\n  1,\n  2\n]"},
       {"[]", "[1]", "[1,2,3,4]", "[1,\"\"]"}},
      {R"({"type":"array","items":{"type":"integer"},"minItems":2})",
       {"[1,2]", "[1,2,3,4,5,6]"},
       {"[]", "[1]"}},
      {R"({"type":"array","maxItems":0})", {"[]", "[ ]"}, {"[1]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":false,)"
       R"("minItems":1})",
       {"[1]", R"([1,"a"])"},
       {"[]", R"(["a"])", R"([1,"a",2])"}},
      {R"({"type":"array","items":[{"type":"integer"}],"additionalItems":{"type":"null"}})",
       {"[]", "[1]", "[1,null,null]"},
       {"[null]", "[1,1]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"}],"minItems":3,"maxItems":4,)"
       R"("items":{"type":"null"}})",
       {"[1,null,null]", "[1,null,null,null]"},
       {"[1]", "[1,null]", "[1,null,null,null,null]"}},
      {R"({"type":"array","items":{"type":"array","items":{"type":"null"}}})", {"[[],[null]]"}, {"[null]"}},
      {R"({"type":"array","uniqueItems":false})", {"[1,1]"}, {}},
  });
}

TEST_CASE("strings: lengths count characters, patterns are not anchored", "[structure]") {
  check({
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", R"("é😀x")", R"("\u00e9\n")"},
       {R"("a")", R"("abcd")", R"("")"}},
      {R"({"type":"string","minLength":2})", {R"("ab")", R"("abcdefgh")"}, {R"("a")"}},
      {R"({"type":"string","maxLength":0})", {R"("")"}, {R"("a")"}},
      {R"({"type":"string","maxLength":100000})", {R"("abc")", R"("")"}, {}},
      {R"({"type":"string","pattern":"b+"})", {R"("abc")", R"("b")", R"("xxbb")"}, {R"("ac")", R"("")"}},
      {R"({"type":"string","pattern":"^a*$"})", {R"("")", R"("aaa")"}, {R"("ab")", R"("ba")"}},
      {R"({"type":"string","pattern":"^[a-c]{2,3}$","maxLength":2})", {R"("ab")"}, {R"("abc")", R"("a")"}},
      {R"({"type":"string","pattern":"^.$"})",
       {R"("é")", R"("😀")", R"("\"")", R"("\t")"},
       {R"("\n")", R"("ab")"}},
      {R"({"type":"string","pattern":"^\\d{3}-\\w+$"})", {R"("123-a_Z9")"}, {R"("12-a")", R"("123-")"}},
      {R"({"allOf":[{"pattern":"a"},{"pattern":"b"},{"type":"string"}]})",
       {R"("ab")", R"("xbya")"},
       {R"("aa")"}},
      {R"({"type":"string","format":"date"})", {R"("2026-11-30")"}, {R"("2026-13-30")", R"("30.11.2026")"}},
      {R"({"type":"string","format":"date-time"})", {R"("2026-11-30T19:20:00Z")"}, {R"("2026-11-30")"}},
      {R"({"type":"string","format":"uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("x")"}},
  });
}

TEST_CASE("enums and constants in their one spelling", "[structure]") {
  check({
      {R"({"enum":["red","green",1,1.5,null,{"a":[true]}]})",
       {R"("red")", R"("green")", "1", "1.5", "null", R"({"a":[true]})"},
       {R"("re")", R"("blue")", "1.0", "2", R"({"a": [true]})"}},
      {R"({"type":"string","enum":["a",1]})", {R"("a")"}, {"1"}},
      {R"({"const":"x\ny"})", {R"("x\ny")"}, {R"("xy")"}},
      {R"({"enum":["a","bbb"],"minLength":2})", {R"("bbb")"}, {R"("a")"}},
      {R"({"allOf":[{"enum":[1,2,3]},{"enum":[3,4,1]}]})", {"1", "3"}, {"2", "4"}},
      {R"({"enum":[{"a":1},{"a":"x"}],"properties":{"a":{"type":"string"}}})",
       {R"({"a":"x"})"},
       {R"({"a":1})"}},
  });
}

TEST_CASE("combinations and references", "[structure]") {
  check({
      {R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]})",
       {"1", R"("a")"},
       {R"("ab")", "null"}},
      {R"({"type":"object","anyOf":[{"properties":{"k":{"const":"a"},"x":{"type":"integer"}},)"
       R"("required":["k","x"]},)"
       R"({"properties":{"k":{"const":"b"},"y":{"type":"string"}},"required":["k","y"]}]})",
       {R"({"k":"a","x":1})", R"({"k":"b","y":""})"},
       {R"({"k":"a","y":""})", R"({"k":"b","x":1})", "1"}},
      {R"({"oneOf":[{"type":"integer"},{"type":"string"}]})", {"1", R"("a")"}, {"null"}},
      {R"({"oneOf":[{"properties":{"t":{"const":"a"}},"required":["t"],"type":"object"},)"
       R"({"properties":{"t":{"const":"b"}},"required":["t"],"type":"object"}]})",
       {R"({"t":"a"})", R"({"t":"b"})"},
       {R"({"t":"c"})", "{}"}},
      {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},)"
       R"({"properties":{"b":{"type":"integer"},"a":{"minimum":5}},"required":["b"]}]})",
       {R"({"a":5,"b":1})", R"({"a":50,"b":1,"c":null})"},
       {R"({"a":4,"b":1})", R"({"a":5})"}},
      {R"({"$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},)"
       R"("next":{"anyOf":[{"type":"null"},)"
       R"({"$ref":"#/$defs/node"}]}},"required":["v","next"],"additionalProperties":false}},)"
       R"("$ref":"#/$defs/node"})",
       {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"},
       {R"({"v":1})", R"({"v":1,"next":{"v":2}})"}},
      {R"({"type":"object","properties":{"c":{"type":"array","items":{"$ref":"#"}}},)"
       R"("additionalProperties":false})",
       {"{}", R"({"c":[{},{"c":[]}]})"},
       {R"({"c":[1]})"}},
      {R"({"definitions":{"a/b~c":{"type":"null"}},"$ref":"#/definitions/a~1b~0c"})", {"null"}, {"1"}},
      {R"({"$ref":"#/$defs/i","minimum":3,"$defs":{"i":{"type":"integer"}}})", {"3"}, {"2"}},
      {R"({"$schema":"http://json-schema.org/draft-07/schema#",)"
       R"("properties":{"a":{"$ref":"#/definitions/i",)"
       R"("minimum":3}},"definitions":{"i":{"type":"integer"}}})",
       {R"({"a":2})"},
       {R"({"a":""})"}},
      {R"({"type":"object","properties":{"a":false,"b":true},"additionalProperties":false})",
       {"{}", R"({"b":[1]})"},
       {R"({"a":1})"}},
  });
}

TEST_CASE("a refusal names the place and the keyword", "[structure]") {
  const struct {
    const char* schema;
    const char* where;
    const char* what;
  } rows[] = {
      {R"({"properties":{"x":{"not":{}}}})", "'#/properties/x'", "'not'"},
      {R"({"patternProperties":{}})", "'#'", "'patternProperties'"},
      {R"({"type":"array","uniqueItems":true})", "'#'", "'uniqueItems'"},
      {R"({"type":"array","contains":{}})", "'#'", "'contains'"},
      {R"({"multipleOf":2})", "'#'", "'multipleOf'"},
      {R"({"type":"string","format":"uri"})", "'#'", "'format'"},
      {R"j({"type":"string","pattern":"(?=a)"})j", "'#'", "'pattern'"},
      {R"({"type":"string","pattern":"("})", "'#'", "'pattern'"},
      {R"({"type":"strin"})", "'#'", "'type'"},
      {R"({"type":7})", "'#'", "'type'"},
      {R"({"minLength":-1})", "'#'", "'minLength'"},
      {R"({"minLength":1.5})", "'#'", "'minLength'"},
      {R"({"required":"a"})", "'#'", "'required'"},
      {R"({"properties":[]})", "'#'", "'properties'"},
      {R"({"properties":{"a~/":{"type":"object","properties":{"b":5}}}})",
       "'#/properties/a~0~1/properties/b'", "no schema"},
      {R"({"$ref":"#/$defs/none"})", "'#'", "'$ref'"},
      {R"({"$ref":"http://example.com/x"})", "'#'", "'$ref'"},
      {R"({"$ref":"#"})", "'#'", "refers to itself"},
      {R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", "'#'", "refers to itself"},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "'#'", "'oneOf'"},
      {R"({"anyOf":[]})", "'#'", "'anyOf'"},
      {R"({"properties":{"a":{"$id":"x"}}})", "'#/properties/a'", "'$id'"},
      {R"({"type":"integer","minimum":3,"maximum":2})", "'#'", "no value"},
      {R"(false)", "'#'", "no value"},
      {R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})", "'#'", "no value"},
      {R"({"a":1,"a":2})", "'#'", "twice"},
      {"{", "schema", "JSON"},
      {"3", "'#'", "no schema"},
  };
  for (const auto& r : rows) {
    INFO(r.schema);
    const schema_under_test schema(r.schema);
    REQUIRE_FALSE(schema.compiled());
    INFO(schema.refusal());
    CHECK(schema.refusal().find(r.where) != std::string::npos);
    CHECK(schema.refusal().find(r.what) != std::string::npos);
  }
}

TEST_CASE("annotations say nothing", "[structure]") {
  check({{R"({"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"x","title":"t",)"
          R"("description":"d",)"
          R"("default":1,"examples":[2],"$comment":"c","deprecated":true,"readOnly":true,)"
          R"("x-own":{},"type":"null"})",
          {"null"},
          {"1"}}});
}
