// Prompts of a trace as a mock sees them.
#include "loadtest/replay/synthetic_prompt.hpp"

#include <simdjson.h>

#include <catch2/catch.hpp>

#include "loadtest/mock/prompt_tokens.hpp"

namespace weir::loadtest::replay {
namespace {

std::vector<std::int32_t> tokens_of(const trace_request& request, std::uint64_t number, prompt_form form) {
  std::string json;
  append_prompt(request, number, form, json);
  simdjson::dom::parser parser;
  const auto value = parser.parse(json).value();
  std::vector<std::int32_t> out;
  if (form == prompt_form::text) {
    mock::append_tokens(std::string_view(value), out);
  } else {
    for (const auto id : value) out.push_back(static_cast<std::int32_t>(std::int64_t(id)));
  }
  return out;
}

std::size_t shared_blocks(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  const auto chain_a = mock::block_chain(a, k_trace_block_tokens, "");
  const auto chain_b = mock::block_chain(b, k_trace_block_tokens, "");
  const auto end = std::mismatch(chain_a.begin(), chain_a.end(), chain_b.begin(), chain_b.end()).first;
  return static_cast<std::size_t>(end - chain_a.begin());
}

trace_request request_of(std::int64_t tokens, std::vector<std::uint64_t> blocks) {
  return {.input_tokens = tokens, .output_tokens = 1, .blocks = std::move(blocks)};
}

TEST_CASE("a prompt has the trace's length, and shares what its blocks share") {
  const auto form = GENERATE(prompt_form::text, prompt_form::ids);
  const struct {
    const char* name;
    trace_request first, second;
    std::size_t shared;
  } k_cases[] = {
      {"nothing", request_of(1024, {1, 2}), request_of(1024, {3, 2}), 0},
      {"a root", request_of(2000, {1, 2, 3, 4}), request_of(2000, {1, 2, 5, 6}), 2},
      {"whole blocks of all tokens but the last", request_of(1025, {1, 2, 3}), request_of(1025, {1, 2, 4}),
       2},
      {"the last token always runs", request_of(1024, {1, 2}), request_of(1024, {1, 2}), 1},
      {"one token", request_of(1, {1}), request_of(1, {1}), 0},
      {"more than the blocks cover", request_of(1100, {1}), request_of(1100, {1}), 1},
      {"more blocks than tokens", request_of(600, {1, 2, 3}), request_of(600, {1, 2, 4}), 1},
  };
  for (const auto& c : k_cases) {
    INFO(c.name);
    const auto first = tokens_of(c.first, 0, form);
    const auto second = tokens_of(c.second, 1, form);
    CHECK(first.size() == static_cast<std::size_t>(c.first.input_tokens));
    CHECK(second.size() == static_cast<std::size_t>(c.second.input_tokens));
    CHECK(shared_blocks(first, second) == c.shared);
    CHECK(tokens_of(c.first, 0, form) == first);
  }
}

}  // namespace
}  // namespace weir::loadtest::replay
