#include "policy/router.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

namespace weir::policy {
namespace {

constexpr std::int64_t k_int64_max = std::numeric_limits<std::int64_t>::max();

target_view ready_target(std::string_view name) {
  return {.name = name, .context_tokens = 8192, .ready = true};
}

// Each row changes one thing about a request or target that would otherwise be eligible.
struct eligibility_case {
  const char* name;
  request_facts facts;
  target_view target;
  verdict expected;
};

const eligibility_case k_cases[] = {
    {"plain request", {}, ready_target("a"), verdict::eligible},
    {"target not ready", {}, {.name = "a", .context_tokens = 8192, .ready = false}, verdict::not_ready},
    {"image without vision", {.needs_image = true}, ready_target("a"), verdict::no_images},
    {"image with vision",
     {.needs_image = true},
     {.name = "a", .context_tokens = 8192, .ready = true, .takes_images = true},
     verdict::eligible},
    {"schema without constrained decoding",
     {.needs_structured_output = true},
     ready_target("a"),
     verdict::no_structured_output},
    {"forced tool without constrained decoding",
     {.needs_forced_tool = true},
     ready_target("a"),
     verdict::no_forced_tools},
    {"fills the context exactly",
     {.prompt_tokens = 8191, .output_tokens_min = 1},
     ready_target("a"),
     verdict::eligible},
    {"one token too many",
     {.prompt_tokens = 8192, .output_tokens_min = 1},
     ready_target("a"),
     verdict::context_too_small},
    {"output alone too long", {.output_tokens_min = 8193}, ready_target("a"), verdict::context_too_small},
    {"counts at the edge of their type",
     {.prompt_tokens = k_int64_max, .output_tokens_min = k_int64_max},
     ready_target("a"),
     verdict::context_too_small},
};

TEST_CASE("eligibility names the first reason") {
  for (const auto& c : k_cases) {
    INFO(c.name);
    CHECK(to_text(check_eligibility(c.facts, c.target)) == to_text(c.expected));
  }
}

TEST_CASE("round robin visits every eligible target once per turn of the wheel") {
  auto broken = ready_target("b");
  broken.ready = false;
  const std::vector targets{ready_target("a"), broken, ready_target("c"), ready_target("d")};
  std::vector<std::size_t> picked;
  for (std::uint64_t turn = 0; turn < 6; ++turn) picked.push_back(route({}, targets, turn).picked);
  CHECK(picked == std::vector<std::size_t>{0, 2, 3, 0, 2, 3});
}

TEST_CASE("a decision explains every candidate") {
  auto broken = ready_target("b");
  broken.ready = false;
  const std::vector targets{ready_target("a"), broken, ready_target("c")};
  const auto d = route({}, targets, 1);
  REQUIRE(d.candidates.size() == 3);
  CHECK(d.picked == 2);
  CHECK(d.candidates[0].why == verdict::eligible);
  CHECK(d.candidates[1].why == verdict::not_ready);
  CHECK(d.candidates[2].why == verdict::chosen);
}

TEST_CASE("no eligible target is a decision too") {
  const auto d = route({.needs_image = true}, std::vector{ready_target("a")}, 0);
  CHECK(d.picked == decision::k_none);
  REQUIRE(d.candidates.size() == 1);
  CHECK(d.candidates[0].why == verdict::no_images);
  CHECK(route({}, {}, 0).picked == decision::k_none);
}

}  // namespace
}  // namespace weir::policy
