#include "loadtest/mock/faults.hpp"

#include <catch2/catch.hpp>
#include <map>

namespace weir::loadtest::mock {
namespace {

TEST_CASE("every fault is found by its name") {
  for (const auto& row : fault_table()) {
    const auto parsed = parse_fault_share(row.name);
    REQUIRE(parsed);
    CHECK(parsed->kind == row.kind);
    CHECK(parsed->share == 1);
  }
}

TEST_CASE("a share is a number in (0, 1]") {
  CHECK(parse_fault_share("no-done:0.25")->share == 0.25);
  const auto* text =
      GENERATE("no-done:", "no-done:0", "no-done:1.1", "no-done:nan", "no-done:0.5x", "unheard-of");
  INFO(text);
  CHECK_FALSE(parse_fault_share(text));
}

TEST_CASE("faults are drawn by their shares") {
  std::mt19937_64 random(7);
  const std::vector<fault_share> shares{{fault::no_done, 0.1}, {fault::status_503, 0.2}};
  std::map<fault, int> drawn;
  constexpr int k_draws = 10'000;
  for (int i = 0; i < k_draws; ++i) ++drawn[draw_fault(shares, random)];
  CHECK(drawn[fault::no_done] == Approx(0.1 * k_draws).epsilon(0.1));
  CHECK(drawn[fault::status_503] == Approx(0.2 * k_draws).epsilon(0.1));
  CHECK(drawn[fault::none] == Approx(0.7 * k_draws).epsilon(0.1));
  CHECK(draw_fault({}, random) == fault::none);
}

}  // namespace
}  // namespace weir::loadtest::mock
