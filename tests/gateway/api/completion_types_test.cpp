#include "gateway/api/completion_types.hpp"

#include "tests/gateway/api/parse_cases.hpp"

namespace weir::gateway::api {

namespace {

using testing::field_case;

std::string prompts(int count) {
  std::string out = ",\"prompt\":[\"p\"";
  for (int i = 1; i < count; ++i) out += ",\"p\"";
  return out + "]";
}

}  // namespace

TEST_CASE("completions: shared fields") {
  testing::check_fields(R"({"model":"m","prompt":"p")", testing::shared_cases(), parse_completion_request);
}

TEST_CASE("completions: own fields") {
  const std::vector<field_case> cases = {
      {"", "prompt"},
      {R"(,"prompt":null)", "prompt"},
      {R"(,"prompt":5)", "prompt"},
      {R"(,"prompt":{})", "prompt"},
      {R"(,"prompt":[])", "prompt"},
      {R"(,"prompt":"")", nullptr},
      {R"(,"prompt":[0,2147483647])", nullptr},
      {R"(,"prompt":[0,2147483648])", "prompt"},
      {R"(,"prompt":[-1])", "prompt"},
      {R"(,"prompt":[9223372036854775808])", "prompt"},
      {R"(,"prompt":[1,"a"])", "prompt"},
      {R"(,"prompt":["a",1])", "prompt"},
      {R"(,"prompt":[1.5])", "prompt"},
      {R"(,"prompt":[[1],[2,3]])", nullptr},
      {R"(,"prompt":[[1],[[2]]])", "prompt"},
      {R"(,"prompt":[null])", "prompt"},
      {prompts(16), nullptr},
      {prompts(17), "prompt"},
      {prompts(8) + R"(,"n":2)", nullptr},
      {prompts(9) + R"(,"n":2)", "n"},
      {R"(,"prompt":"p","echo":1)", "echo"},
      {R"(,"prompt":"p","logprobs":5)", nullptr},
      {R"(,"prompt":"p","logprobs":6)", "logprobs"},
      {R"(,"prompt":"p","logprobs":true)", "logprobs"},
      {R"(,"prompt":"p","logprobs":0,"echo":true)", "echo"},
      {R"(,"prompt":"p","suffix":"")", nullptr},
      {R"(,"prompt":"p","suffix":"s")", "suffix"},
      {R"(,"prompt":"p","best_of":1)", nullptr},
      {R"(,"prompt":"p","best_of":2)", "best_of"},
      {R"(,"prompt":"p","best_of":2,"n":2)", nullptr},
  };
  testing::check_fields(R"({"model":"m")", cases, parse_completion_request);
}

TEST_CASE("completions: values arrive") {
  const auto text = parse_completion_request(R"({"model":"m","prompt":["a","b"],"echo":true})");
  REQUIRE(text.has_value());
  CHECK(text->prompts == std::vector<completion_prompt>{std::string("a"), std::string("b")});
  CHECK(text->echo);
  CHECK(text->options.max_tokens == k_completion_tokens_default);
  CHECK(text->options.top_logprobs == -1);
  const auto ids = parse_completion_request(R"({"model":"m","prompt":[1,2],"logprobs":0,"max_tokens":3})");
  REQUIRE(ids.has_value());
  CHECK(ids->prompts == std::vector<completion_prompt>{std::vector<std::int32_t>{1, 2}});
  CHECK(ids->options.top_logprobs == 0);
  CHECK(ids->options.max_tokens == 3);
}

}  // namespace weir::gateway::api
