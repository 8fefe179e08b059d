// Grammars and their automaton: dead ends, depth, ambiguity, repetition, moving between automata.
#include "engine/structure/grammar.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "engine/structure/automaton.hpp"
#include "tests/engine/structure/accepts.hpp"

namespace {

using namespace weir::engine::structure;

}  // namespace

TEST_CASE("repetition counts exactly", "[structure]") {
  for (const auto& [min, max] : std::initializer_list<std::pair<std::uint32_t, std::uint32_t>>{
           {0, 1}, {0, 3}, {1, 1}, {2, 5}, {3, 3}, {0, k_no_limit}, {2, k_no_limit}}) {
    grammar_builder builder;
    const rule_id root = builder.add_rule(), item = builder.add_rule();
    builder.text(builder.start(item), "ab", builder.end(item));
    builder.call(builder.start(root), item, builder.end(root), min, max);
    const auto rules = builder.finish(root);
    REQUIRE(rules);
    automaton walked(*rules, 0);
    place_id at = walked.start();
    for (std::uint32_t count = 0; count < 9; ++count) {
      INFO(min << ".." << max << " at " << count);
      CHECK((at != k_dead && walked.is_complete(at)) == (count >= min && count <= max));
      for (const char c : {'a', 'b'}) at = at == k_dead ? at : walked.step(at, static_cast<unsigned char>(c));
    }
  }
}

TEST_CASE("nesting is bounded, and never into a dead end", "[structure]") {
  // Each level needs two more below it.
  schema_under_test schema(
      R"({"$defs":{"a":{"type":"array","items":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"array",)"
      R"("minItems":1,)"
      R"("items":{"type":"array","minItems":1,"items":{"type":"null"}}}]}}},"$ref":"#/$defs/a"})");
  INFO(schema.refusal());
  REQUIRE(schema.compiled());
  automaton& walked = schema.walked();
  place_id at = walked.start();
  int depth = 0;
  for (place_id next; (next = walked.step(at, '[')) != k_dead; ++depth) at = next;
  CHECK(depth > 40);
  CHECK(depth <= static_cast<int>(k_call_depth_max));
  // From the deepest place there is a way out.
  for (int steps = 0; steps < 1000 && !walked.is_complete(at); ++steps) {
    place_id next = k_dead;
    for (const char c : std::string("nul]")) {
      next = walked.step(at, static_cast<unsigned char>(c));
      if (next != k_dead) break;
    }
    REQUIRE(next != k_dead);
    at = next;
  }
  CHECK(walked.is_complete(at));
}

TEST_CASE("alternatives that begin alike do not multiply", "[structure]") {
  schema_under_test schema(
      R"({"anyOf":[{"type":"array","items":{"$ref":"#"}},{"type":"array","items":{"$ref":"#"},)"
      R"("maxItems":9},)"
      R"({"type":"null"}]})");
  REQUIRE(schema.compiled());
  CHECK(schema.accepts(std::string(40, '[') + "null" + std::string(40, ']')));
  CHECK_FALSE(schema.walked().overloaded());
  CHECK(schema.walked().bytes() < 1 << 20);
}

TEST_CASE("whatever is allowed can be finished", "[structure]") {
  const char* schemas[] = {
      R"({"type":"object"})",
      R"({"type":"object","properties":{"a":{"type":"string","pattern":"^(ab|c)+d$"},)"
      R"("b":{"type":"integer",)"
      R"("minimum":-31,"maximum":77},"c":{"enum":["x","xy",3]}},"required":["a","c"]})",
      R"({"type":"array","items":{"type":"number","exclusiveMinimum":0.5,"maximum":3},)"
      R"("minItems":2,"maxItems":4})",
      R"({"type":"string","minLength":3,"maxLength":5})",
  };
  std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (const char* text : schemas) {
    schema_under_test schema(text);
    INFO(text << " " << schema.refusal());
    REQUIRE(schema.compiled());
    automaton& walked = schema.walked();
    for (int run = 0; run < 40; ++run) {
      place_id at = walked.start();
      std::string written;
      for (int i = 0; i < 300 && walked.goes_on(at); ++i) {
        std::vector<int> ways;
        for (int b = 0; b < 256; ++b) {
          if (walked.step(at, static_cast<symbol>(b)) != k_dead) ways.push_back(b);
        }
        INFO(written);
        REQUIRE(!ways.empty());
        const int b = ways[random() % ways.size()];
        written += static_cast<char>(b);
        at = walked.step(at, static_cast<symbol>(b));
      }
      // The same place in another automaton goes on alike.
      const auto made = compile_answer({.text = text_form::json_schema, .schema_json = text}, nullptr);
      automaton other(made->rules, 0);
      const place_id moved = other.adopt(walked, at);
      CHECK(other.is_complete(moved) == walked.is_complete(at));
      for (int b = 0; b < 256; ++b) {
        const auto here = walked.step(at, static_cast<symbol>(b)),
                   there = other.step(moved, static_cast<symbol>(b));
        REQUIRE((here == k_dead) == (there == k_dead));
      }
    }
  }
}
