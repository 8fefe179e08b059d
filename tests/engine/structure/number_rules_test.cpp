// Bounded numbers against arithmetic: every number of a grid, both signs.
#include <catch2/catch.hpp>
#include <string>

#include "engine/structure/json_tree.hpp"
#include "engine/structure/number_rules.hpp"
#include "tests/engine/structure/accepts.hpp"

namespace {

using namespace weir::engine::structure;

struct bounds {
  const char* keywords;
  double low, high;
  bool low_open, high_open;
};

bool inside(const bounds& b, double value) {
  return (b.low_open ? value > b.low : value >= b.low) && (b.high_open ? value < b.high : value <= b.high);
}

constexpr double k_far = 1e18;

}  // namespace

TEST_CASE("whole and other numbers within bounds", "[structure]") {
  const bounds rows[] = {
      {R"("minimum":0)", 0, k_far, false, false},
      {R"("minimum":-7,"maximum":12)", -7, 12, false, false},
      {R"("exclusiveMinimum":-7,"exclusiveMaximum":12)", -7, 12, true, true},
      {R"("minimum":10,"maximum":119)", 10, 119, false, false},
      {R"("maximum":-3)", -k_far, -3, false, false},
      {R"("minimum":-120,"maximum":-9)", -120, -9, false, false},
      {R"("minimum":1.25,"maximum":3.5)", 1.25, 3.5, false, false},
      {R"("exclusiveMinimum":1.25,"maximum":99.75)", 1.25, 99.75, true, false},
      {R"("minimum":-2.5,"exclusiveMaximum":0)", -2.5, 0, false, true},
      {R"("exclusiveMinimum":0)", 0, k_far, true, false},
      {R"("maximum":100)", -k_far, 100, false, false},
  };
  for (const bounds& b : rows) {
    INFO(b.keywords);
    schema_under_test whole("{\"type\":\"integer\"," + std::string(b.keywords) + "}");
    schema_under_test any("{\"type\":\"number\"," + std::string(b.keywords) + "}");
    REQUIRE(whole.compiled());
    REQUIRE(any.compiled());
    for (int quarter = -600; quarter <= 600; ++quarter) {
      const double value = quarter / 4.0;
      const std::string text = canonical_number(value);
      INFO(text);
      CHECK(any.accepts(text) == inside(b, value));
      CHECK(whole.accepts(text) == (quarter % 4 == 0 && inside(b, value)));
    }
    CHECK_FALSE(any.accepts("-0"));
    CHECK_FALSE(any.accepts("01"));
    CHECK(any.accepts("2.000") == inside(b, 2));
  }
}

TEST_CASE("bounds of sixty-four bits are exact", "[structure]") {
  schema_under_test schema(
      R"({"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807})");
  REQUIRE(schema.compiled());
  CHECK(schema.accepts("9223372036854775807"));
  CHECK_FALSE(schema.accepts("9223372036854775808"));
  CHECK(schema.accepts("-9223372036854775808"));
  CHECK_FALSE(schema.accepts("-9223372036854775809"));
}

TEST_CASE("numbers compare as values", "[structure]") {
  CHECK(compare_decimals("1", "1") == 0);
  CHECK(compare_decimals("-1", "1") < 0);
  CHECK(compare_decimals("10", "9") > 0);
  CHECK(compare_decimals("-10", "-9") < 0);
  CHECK(compare_decimals("1.5", "1.25") > 0);
  CHECK(compare_decimals("0.05", "0.5") < 0);
  CHECK(canonical_number(0.1) == "0.1");
  CHECK(canonical_number(-0.0) == "0");
  CHECK(canonical_number(1e15) == "1000000000000000");
  CHECK(canonical_number(1e300) == "1e+300");
}
