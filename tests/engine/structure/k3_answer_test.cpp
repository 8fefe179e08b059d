// Answers in Kimi-K3's markup: whatever the constraint allows is understood by the format's parser and keeps
// the schemas, and nothing else is allowed.
#include <simdjson.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "engine/structure/answer_constraint.hpp"
#include "tests/engine/structure/accepts.hpp"
#include "tests/engine/text/parsed_answer.hpp"
#include "tests/engine/text/support.hpp"

namespace weir::engine::structure {
namespace {

// Single bytes, and tokens that lie across the borders of the form's parts or look like its special tokens.
std::shared_ptr<const text::tokenizer> tokenizer() {
  static const auto tok = *text::make_tokenizer(
      text::rank_file({"<|", "|>", "close", "open", "think", "respon", "response", "call tool=\"",
                       "\" index=\"", "1\"", "json", "{\"", "\"}", "\": ", "\":\"", "}}", "\"\"",
                       "<|close|>think<|sep|>"}),
      R"({"added_tokens_decoder":{"300":{"content":"<|end_of_msg|>"},"301":{"content":"<|open|>"},)"
      R"("302":{"content":"<|close|>"},"303":{"content":"<|sep|>"},"304":{"content":"[EOS]"},)"
      R"("305":{"content":"[BOS]"}}})");
  return tok;
}

const text::chat_format& format() {
  static const auto made = *text::chat_format::detect(tokenizer());
  return *made;
}

std::shared_ptr<const token_constraint> constraint_of(const answer_spec& spec, bool thinking) {
  static const auto words = *vocabulary::build(tokenizer());
  const text::answer_markup markup = format().answers(thinking);
  auto rules = compile_answer(spec, &markup);
  INFO((rules ? std::string() : rules.error().detail));
  REQUIRE(rules);
  return make_constraint(std::move(*rules), words);
}

// (o) (c) (s) for the special tokens.
std::vector<std::int32_t> ids(std::string markup) {
  const std::pair<const char*, const char*> k_short[] = {
      {"(o)", "<|open|>"}, {"(c)", "<|close|>"}, {"(s)", "<|sep|>"}};
  for (const auto& [from, to] : k_short) {
    for (std::size_t at = markup.find(from); at != std::string::npos; at = markup.find(from, at))
      markup.replace(at, 3, to);
  }
  return text::encoded_with_specials(*tokenizer(), markup);
}

// How many of the tokens are allowed, one after another.
std::size_t allowed_of(token_matcher& m, const std::vector<std::int32_t>& tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto mask = m.allowed();
    REQUIRE(mask);
    const bool allowed = contains(*mask, tokens[i]);
    if (m.accept(tokens[i]) != allowed) FAIL("mask and acceptance differ");
    if (!allowed) return i;
  }
  return tokens.size();
}

bool is_whole(const answer_spec& spec, bool thinking, const std::string& markup) {
  const auto tokens = ids(markup);
  const auto m = constraint_of(spec, thinking)->start();
  return allowed_of(*m, tokens) == tokens.size() && m->is_complete() && m->must_end();
}

const char k_trip[] =
    R"({"type":"object","properties":{"city":{"type":"string","maxLength":12},"days":{"type":"integer",)"
    R"("minimum":1,"maximum":14},"unit":{"enum":["c","f"]}},"required":["city","days"],)"
    R"("additionalProperties":false})";
const char k_note[] = R"({"type":"object","properties":{"text":{"type":"string"}},"required":["text"],)"
                      R"("additionalProperties":false})";

std::vector<function_spec> functions() {
  return {{"trip", k_trip, true}, {"note", k_note, false}, {"trip_2", k_trip, true}, {"any", "", false}};
}

// A way through a constraint that draws what comes next, special tokens and quotes often enough that texts
// end; behind `k_free_tokens` it takes the shortest way out.
class random_walk final {
 public:
  explicit random_walk(unsigned seed) : draw_(seed) {}

  std::vector<std::int32_t> run(const token_constraint& constraint) {
    const auto m = constraint.start();
    std::vector<std::int32_t> out;
    while (!m->must_end()) {
      REQUIRE(out.size() < k_tokens_max);
      CHECK_FALSE(m->is_complete());  // K3's answers end with a tag
      const auto mask = m->allowed();
      REQUIRE(mask);
      check_others(*m, *mask);
      const std::int32_t token = out.size() < k_free_tokens ? any(*mask) : closing(*mask);
      REQUIRE(m->accept(token));
      out.push_back(token);
    }
    return out;
  }

 private:
  static constexpr std::size_t k_free_tokens = 200;
  static constexpr std::size_t k_tokens_max = 4000;

  // No special token outside of the mask, and none of some others, is taken.
  void check_others(token_matcher& m, const token_mask& mask) {
    for (std::int32_t id = 300; id < 306; ++id) {
      if (!contains(mask, id)) CHECK_FALSE(m.accept(id));
    }
    for (int i = 0; i < 4; ++i) {
      const auto id = static_cast<std::int32_t>(draw_() % 274);
      if (!contains(mask, id)) CHECK_FALSE(m.accept(id));
    }
    for (const std::int32_t id : {300, 304, 305}) CHECK_FALSE(contains(mask, id));
  }

  std::int32_t any(const token_mask& mask) {
    if (draw_() % 8 == 0) return closing(mask);
    std::vector<std::int32_t> ways;
    for (std::int32_t id = 0; id < tokenizer()->vocab_size(); ++id) {
      if (contains(mask, id)) ways.push_back(id);
    }
    REQUIRE_FALSE(ways.empty());
    return ways[draw_() % ways.size()];
  }

  std::int32_t closing(const token_mask& mask) {
    for (const std::int32_t id : {302, 303, 301, int{'"'}, int{'}'}, int{']'}}) {
      if (contains(mask, id)) return id;
    }
    std::vector<std::int32_t> ways;
    for (std::int32_t id = 0; id < 256; ++id) {
      if (contains(mask, id)) ways.push_back(id);
    }
    REQUIRE_FALSE(ways.empty());
    return ways[draw_() % ways.size()];
  }

  std::mt19937 draw_;
};

void check_object(const std::string& json) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  INFO(json);
  CHECK(parser.parse(json).get(object) == simdjson::SUCCESS);
}

void check_trip(const std::string& json) {
  INFO(json);
  CHECK(schema_under_test(k_trip).accepts(json));
  simdjson::dom::parser parser;
  simdjson::dom::object trip;
  REQUIRE(parser.parse(json).get(trip) == simdjson::SUCCESS);
  std::string_view city;
  std::int64_t days = 0;
  CHECK(trip["city"].get(city) == simdjson::SUCCESS);
  REQUIRE(trip["days"].get(days) == simdjson::SUCCESS);
  CHECK((days >= 1 && days <= 14));
  CHECK(trip.size() <= 3);
}

void check_calls(const text::parsed_answer& answer) {
  for (std::size_t i = 0; i < answer.calls.size(); ++i) {
    const auto& call = answer.calls[i];
    CHECK(call.id == "functions." + call.name + ":" + std::to_string(i));
    if (call.name.starts_with("trip")) {
      check_trip(call.arguments);
    } else {
      CHECK((call.name == "note" || call.name == "any"));
      if (call.name == "note") CHECK(schema_under_test(k_note).accepts(call.arguments));
      check_object(call.arguments);
    }
  }
}

// The answers of a few random walks, read by the format's parser.
std::vector<text::parsed_answer> walked(const answer_spec& spec, bool thinking) {
  const auto constraint = constraint_of(spec, thinking);
  std::vector<text::parsed_answer> out;
  for (unsigned seed = 1; seed <= 12; ++seed) {
    INFO("seed " << seed);
    const auto tokens = random_walk(seed).run(*constraint);
    INFO(text::joined_bytes(*tokenizer(), tokens));
    out.push_back(text::parse_answer(format(), thinking, tokens));
    const auto& answer = out.back();
    if (!thinking) CHECK(answer.reasoning.empty());
    CHECK(answer.has_calls == !answer.calls.empty());
    check_calls(answer);
  }
  return out;
}

template <class F>
std::size_t count(const std::vector<text::parsed_answer>& answers, F is) {
  return static_cast<std::size_t>(std::count_if(answers.begin(), answers.end(), is));
}

const std::string k_thought = "Hm.(c)think(s)(o)response(s)";
const std::string k_end = "(c)message(s)";

std::string call(const std::string& name, int index, const std::string& arguments) {
  return "(o)call tool=\"" + name + "\" index=\"" + std::to_string(index) +
         "\"(s)(o)json type=\"object\"(s)" + arguments + "(c)json(s)(c)call(s)";
}
std::string tools(const std::string& calls) {
  return "(c)response(s)(o)tools(s)" + calls + "(c)tools(s)" + k_end;
}

}  // namespace

TEST_CASE("JSON answers of K3, drawn at random", "[structure][k3]") {
  for (const bool thinking : {true, false}) {
    const answer_spec schema{.text = text_form::json_schema, .schema_json = k_trip};
    const auto trips = walked(schema, thinking);
    for (const auto& answer : trips) {
      CHECK(answer.calls.empty());
      check_trip(answer.content);
    }
    if (thinking) CHECK(count(trips, [](const auto& a) { return !a.reasoning.empty(); }) > 0);
    for (const auto& answer : walked({.text = text_form::json_object}, thinking)) {
      CHECK(answer.calls.empty());
      check_object(answer.content);
    }
  }
}

TEST_CASE("calls of K3, drawn at random", "[structure][k3]") {
  for (const bool thinking : {true, false}) {
    answer_spec spec{.text = text_form::none, .calls = call_rule::required, .functions = functions()};
    const auto has_several = [](const auto& a) { return a.calls.size() > 1; };
    const auto has_calls = [](const auto& a) { return a.has_calls; };
    const auto required = walked(spec, thinking);
    CHECK(count(required, has_calls) == required.size());
    CHECK(count(required, has_several) > 0);
    for (const auto& answer : required) CHECK(answer.content.empty());
    spec.parallel_calls = false;
    const auto one = walked(spec, thinking);
    CHECK(count(one, has_calls) == one.size());
    CHECK(count(one, has_several) == 0);
    spec.text = text_form::free;
    spec.calls = call_rule::allowed;
    const auto open = walked(spec, thinking);
    CHECK(count(open, has_calls) > 0);
    CHECK(count(open, has_calls) < open.size());
    spec.text = text_form::json_schema;
    spec.schema_json = k_trip;
    for (const auto& answer : walked(spec, thinking)) {
      CHECK(answer.has_calls == answer.content.empty());
      if (!answer.has_calls) check_trip(answer.content);
    }
  }
}

TEST_CASE("a JSON answer of K3 is its channels and nothing else", "[structure][k3]") {
  const answer_spec spec{.text = text_form::json_schema, .schema_json = k_trip};
  const std::string json = R"({"city": "<|close|>", "days": 3})";
  const std::string shown = R"({"city": "Ulm", "days": 3})";
  const std::string end = "(c)response(s)" + k_end;
  CHECK(is_whole(spec, true, k_thought + shown + end));
  CHECK(is_whole(spec, true, "(c)think(s)(o)response(s)" + shown + end));
  CHECK(is_whole(spec, false, shown + end));
  for (const auto& wrong : std::vector<std::string>{
           shown + end, "Hm.(c)think(s)" + shown + end, k_thought + "Here: " + shown + end,
           k_thought + shown + "(c)response(s)(o)response(s)" + end, k_thought + json + end,
           k_thought + R"({"city": "Ulm", "days": 15})" + end, k_thought + end, k_thought + shown + k_end,
           k_thought + shown + tools(call("trip", 1, shown)), k_thought + tools(call("trip", 1, shown)),
           "Hm.(c)response(s)(o)response(s)" + shown + end, "Hm.(o)response(s)" + shown + end,
           "Hm.(s)(c)think(s)(o)response(s)" + shown + end, "Hm.[EOS]", "Hm.[BOS]", "Hm.<|end_of_msg|>",
           k_thought + shown + "(c)response(s)<|end_of_msg|>", k_thought + shown + end + " "}) {
    INFO(wrong);
    CHECK_FALSE(is_whole(spec, true, wrong));
  }
  // The same characters as ordinary tokens are text, here of the thought and of a string.
  std::vector<std::int32_t> tokens;
  tokenizer()->encode("Hm.<|close|>think<|sep|><|open|>response<|sep|>{", tokens);
  for (const std::int32_t id : ids(R"((c)think(s)(o)response(s){"city": ")")) tokens.push_back(id);
  tokenizer()->encode("<|close|>", tokens);
  for (const std::int32_t id : ids(R"(", "days": 3})" + end)) tokens.push_back(id);
  const auto m = constraint_of(spec, true)->start();
  CHECK(allowed_of(*m, tokens) == tokens.size());
  CHECK(m->must_end());
  const auto answer = text::parse_answer(format(), true, tokens);
  CHECK(answer.reasoning == "Hm.<|close|>think<|sep|><|open|>response<|sep|>{");
  CHECK(answer.content == json);
}

TEST_CASE("calls of K3 are numbered from 1, their arguments one text", "[structure][k3]") {
  const std::string trip = R"({"city": "Ulm", "days": 3})";
  answer_spec spec{.text = text_form::none, .calls = call_rule::required, .functions = functions()};
  CHECK(is_whole(spec, true, k_thought + tools(call("trip", 1, trip) + call("any", 2, "{}"))));
  CHECK(is_whole(spec, false, tools(call("trip_2", 1, trip))));
  const std::string open_call = "(o)call tool=\"trip\" index=\"";
  const std::string argument = "(o)argument key=\"city\" type=\"string\"(s)Ulm(c)argument(s)(c)call(s)";
  for (const auto& wrong : std::vector<std::string>{
           tools(""), tools(call("trip", 0, trip)), tools(call("trip", 2, trip)),
           tools(call("trip", 10, trip)), tools(call("any", 1, "{}") + call("any", 1, "{}")),
           tools(call("any", 1, "{}") + call("any", 3, "{}")), tools(call("tri", 1, trip)),
           tools(call("trip_3", 1, trip)), tools(call("trip", 1, "{}")), tools(call("trip", 1, "")),
           tools(open_call + "1\"(s)" + argument), tools(open_call + "01\"(s)"),
           tools(open_call + "1\" type=\"object\"(s)"), "Hi." + tools(call("any", 1, "{}")),
           tools(call("any", 1, "{}") + " "), "(c)response(s)" + k_end,
           "(o)tools(s)" + call("any", 1, "{}") + "(c)tools(s)" + k_end,
           "(c)response(s)" + call("any", 1, "{}") + k_end}) {
    INFO(wrong);
    CHECK_FALSE(is_whole(spec, false, wrong));
  }
  std::string most;
  for (int i = 1; i <= static_cast<int>(k_calls_max); ++i)
    most += call(i % 2 == 0 ? "any" : "trip_2", i, trip);
  CHECK(is_whole(spec, false, tools(most)));
  CHECK_FALSE(is_whole(spec, false, tools(most + call("any", static_cast<int>(k_calls_max) + 1, "{}"))));
  spec.parallel_calls = false;
  CHECK(is_whole(spec, false, tools(call("any", 1, "{}"))));
  CHECK_FALSE(is_whole(spec, false, tools(call("any", 1, "{}") + call("any", 2, "{}"))));
}

TEST_CASE("free text of K3 goes on to strict calls or ends", "[structure][k3]") {
  const answer_spec spec{.text = text_form::free, .calls = call_rule::allowed, .functions = functions()};
  const std::string trip = R"({"city": "Ulm", "days": 3})";
  CHECK(is_whole(spec, true, k_thought + "So {.(c)response(s)" + k_end));
  CHECK(is_whole(spec, true, k_thought + "(c)response(s)" + k_end));
  CHECK(is_whole(spec, true, k_thought + "So." + tools(call("trip", 1, trip))));
  CHECK(is_whole(spec, false, "So." + tools(call("trip", 1, trip))));
  CHECK_FALSE(is_whole(spec, true, k_thought + "So." + tools(call("trip", 1, "{}"))));
  CHECK_FALSE(is_whole(spec, true, k_thought + "So.<|end_of_msg|>"));
}

TEST_CASE("the most tools that a request may have leave room for numbered calls", "[structure][k3]") {
  constexpr int k_tools = 128;
  std::string schema = R"({"type":"object","properties":{)";
  for (int i = 0; i < 8; ++i)
    schema += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) + R"(":{"type":"string"})";
  schema += R"(},"required":["p0","p7"],"additionalProperties":false})";
  answer_spec spec{.text = text_form::none, .calls = call_rule::required};
  for (int i = 0; i < k_tools; ++i) spec.functions.push_back({"tool_" + std::to_string(i), schema, true});
  const std::string arguments = R"({"p0": "a", "p7": "b"})";
  std::string calls;
  for (int i = 1; i <= 12; ++i) calls += call("tool_" + std::to_string(k_tools - i), i, arguments);
  CHECK(is_whole(spec, false, tools(calls)));
}

}  // namespace weir::engine::structure
