// Answers over a vocabulary: masks, special tokens, free text, what a matcher says of its end.
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <string>

#include "engine/structure/answer_constraint.hpp"
#include "engine/text/chat_format.hpp"

namespace {

using namespace weir::engine;
using namespace weir::engine::structure;

const std::filesystem::path k_model = std::filesystem::path(WEIR_SOURCE_DIR) / "configs/models/weir-tiny";

std::shared_ptr<const text::tokenizer> tokenizer() {
  static const auto tok = *text::tokenizer::load(k_model);
  return tok;
}
std::shared_ptr<const vocabulary> words() {
  static const auto made = *vocabulary::build(tokenizer());
  return made;
}

text::answer_markup markup() {
  const auto format = text::chat_format::detect(tokenizer());
  REQUIRE(format);
  return (*format)->answers(true);
}

std::shared_ptr<const token_constraint> constraint_of(const answer_spec& spec) {
  const text::answer_markup marks = markup();
  auto rules = compile_answer(spec, &marks);
  INFO((rules ? std::string() : rules.error().detail));
  REQUIRE(rules);
  return make_constraint(std::move(*rules), words());
}

std::vector<std::int32_t> ids(std::string_view content) {
  std::vector<std::int32_t> out;
  tokenizer()->encode_with_specials(content, out);
  return out;
}

// Every token is in the mask before it is accepted.
bool follows(token_matcher& m, std::string_view content) {
  for (const std::int32_t id : ids(content)) {
    const auto mask = m.allowed();
    REQUIRE(mask);
    const bool allowed = contains(*mask, id);
    if (m.accept(id) != allowed) FAIL("mask and acceptance differ");
    if (!allowed) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a mask is exactly what can be accepted", "[structure]") {
  const auto constraint = constraint_of(
      {.text = text_form::json_schema,
       .schema_json = R"({"type":"object","properties":{"name":{"type":"string","maxLength":40},)"
                      R"("n":{"type":"integer",)"
                      R"("maximum":300},"k":{"enum":["alpha","beta"]}},"required":["name","n","k"],)"
                      R"("additionalProperties":false})"});
  const std::string whole = R"({"name": "Ann \u00e9 é", "n": 27, "k": "beta"})";
  const auto m = constraint->start();
  for (const std::int32_t id : ids(whole)) {
    const auto mask = m->allowed();
    REQUIRE(mask);
    CHECK_FALSE(m->is_complete());
    std::string prefix;
    for (std::int32_t t = 0; t < tokenizer()->vocab_size(); ++t) {
      if (contains(*mask, t)) continue;
      // What is not in the mask is refused and leaves the matcher where it is.
      CHECK_FALSE(m->accept(t));
    }
    REQUIRE(contains(*mask, id));
    REQUIRE(m->accept(id));
  }
  CHECK(m->is_complete());
  CHECK(m->must_end());
}

TEST_CASE("json_object is an object", "[structure]") {
  const auto constraint = constraint_of({.text = text_form::json_object});
  CHECK(follows(*constraint->start(), R"({"a": [1, 2, {"b": null}], "c": "x"})"));
  CHECK_FALSE(follows(*constraint->start(), "[1]"));
  CHECK_FALSE(follows(*constraint->start(), "Sure: {"));
  const auto m = constraint->start();
  CHECK(follows(*m, R"({"a": 1)"));
  CHECK_FALSE(m->is_complete());
  CHECK(follows(*m, "}"));
  CHECK(m->must_end());
}

TEST_CASE("calls: required, one of several, in parallel or not", "[structure]") {
  const std::vector<function_spec> functions{
      {"add",
       R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},)"
       R"("required":["a","b"],)"
       R"("additionalProperties":false})",
       true},
      {"get_weather", R"({"type":"object","properties":{"city":{"type":"string"}},"not":{}})", false}};
  const std::string begin = "<|tool_calls_section_begin|>", end = "<|tool_calls_section_end|>";
  const auto call = [](const std::string& name, const std::string& arguments) {
    return "<|tool_call_begin|>functions." + name + ":0<|tool_call_argument_begin|>" + arguments +
           "<|tool_call_end|>";
  };
  const std::string one = call("add", R"({"a": 1, "b": 2})");
  const std::string loose = call("get_weather", R"({"any": true})");
  answer_spec spec{.text = text_form::none, .calls = call_rule::required, .functions = functions};
  auto m = constraint_of(spec)->start();
  CHECK(follows(*m, begin + one + one + loose + end));
  CHECK(m->must_end());
  for (const auto& wrong : {std::string("Hello"), begin + end, begin + call("add", R"({"a": 1})"),
                            begin + call("mul", "{}"), begin + call("add", "[]"), one}) {
    INFO(wrong);
    CHECK_FALSE(follows(*constraint_of(spec)->start(), wrong));
  }
  spec.parallel_calls = false;
  CHECK(follows(*constraint_of(spec)->start(), begin + one + end));
  CHECK_FALSE(follows(*constraint_of(spec)->start(), begin + one + one));
  // Free text, then perhaps calls.
  spec.text = text_form::free;
  spec.calls = call_rule::allowed;
  m = constraint_of(spec)->start();
  CHECK(m->is_complete());
  CHECK(follows(*m, "Let me see. \"{"));
  CHECK(m->is_complete());
  CHECK(follows(*m, begin));
  CHECK_FALSE(m->is_complete());
  CHECK(follows(*m, one + end));
  CHECK(m->must_end());
  // JSON, or calls.
  spec.text = text_form::json_object;
  CHECK(follows(*constraint_of(spec)->start(), "{}"));
  CHECK(follows(*constraint_of(spec)->start(), begin + one + end));
  CHECK_FALSE(follows(*constraint_of(spec)->start(), "Let"));
}

TEST_CASE("a refusal says whose schema it is", "[structure]") {
  const text::answer_markup marks = markup();
  const auto refused =
      compile_answer({.text = text_form::none,
                      .calls = call_rule::required,
                      .functions = {{"f", "", true}, {"g", R"({"properties":{"x":{"not":{}}}})", true}}},
                     &marks);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().function == 1);
  CHECK(refused.error().detail.find("'#/properties/x'") != std::string::npos);
}

TEST_CASE("functions that promise nothing never keep a request from being served", "[structure]") {
  const text::answer_markup marks = markup();
  std::string large = R"({"type":"object","properties":{)";
  for (int i = 0; i < 400; ++i) {
    large += (i > 0 ? ",\"" : "\"") + std::to_string(i) + R"(":{"type":"string","pattern":"^(ab|c){30})" +
             std::to_string(i) + "$\"}";
  }
  large += "}}";
  answer_spec spec{.text = text_form::none, .calls = call_rule::required};
  for (int i = 0; i < 9; ++i) spec.functions.push_back({"f" + std::to_string(i), large, false});
  spec.functions.push_back({"strict", R"({"type":"object","additionalProperties":false})", true});
  const auto made = compile_answer(spec, &marks);
  REQUIRE(made);
  spec.functions[3].strict = true;
  CHECK_FALSE(compile_answer(spec, &marks));
}

TEST_CASE("sequences share masks, also when the automaton begins anew", "[structure]") {
  // Strings whose every length is a place of its own, so that the memory limit is met.
  const auto constraint =
      constraint_of({.text = text_form::json_schema,
                     .schema_json = R"({"type":"array","items":{"type":"string","minLength":3000,)"
                                    R"("maxLength":40000}})"});
  const auto a = constraint->start(), b = constraint->start();
  CHECK(follows(*a, "[\""));
  CHECK(follows(*b, "[\""));
  for (int i = 0; i < 3001; ++i) {
    for (const auto* m : {&a, &b}) {
      if (i % 7 == 0) REQUIRE((*m)->allowed());
      REQUIRE((*m)->accept(ids("x")[0]));
    }
  }
  CHECK(follows(*a, "\"]"));
  CHECK(a->must_end());
  CHECK_FALSE(b->is_complete());
  CHECK(follows(*b, "\", \""));
}

TEST_CASE("a vocabulary spells every text", "[structure]") {
  for (std::int32_t id = 0; id < tokenizer()->vocab_size(); ++id) {
    if (tokenizer()->is_special(id)) CHECK(words()->bytes(id).empty());
  }
  // Free text allows all of it.
  answer_spec spec{.text = text_form::free, .calls = call_rule::allowed, .functions = {{"f", "", false}}};
  const auto mask = constraint_of(spec)->start()->allowed();
  REQUIRE(mask);
  const std::int32_t begin = *tokenizer()->special_id("<|tool_calls_section_begin|>");
  for (std::int32_t id = 0; id < tokenizer()->vocab_size(); ++id) {
    const bool expected = !words()->bytes(id).empty() || id == begin;
    CHECK(contains(*mask, id) == expected);
  }
}
