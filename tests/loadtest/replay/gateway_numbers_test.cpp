#include "loadtest/replay/gateway_numbers.hpp"

#include <catch2/catch.hpp>

namespace weir::loadtest::replay {
namespace {

constexpr const char* k_before = R"(# HELP weir_prefix_tokens_total Of requests
# TYPE weir_prefix_tokens_total counter
weir_prefix_tokens_total{kind="prompt"} 100
weir_prefix_tokens_total{kind="predicted"} 40
weir_prefix_tokens_total{kind="cached"} 30
weir_prefix_tokens_total{kind="error"} 10
weir_upstream_attempts_total{target="r1",outcome="ok"} 3
weir_upstream_attempts_total{target="r1",outcome="failed"} 9
weir_route_decision_seconds_bucket{le="0.001"} 1
weir_route_decision_seconds_bucket{le="0.01"} 1
weir_route_decision_seconds_bucket{le="+Inf"} 1
)";

constexpr const char* k_after = R"(weir_prefix_tokens_total{kind="prompt"} 1.1e3
weir_prefix_tokens_total{kind="predicted"} 340
weir_prefix_tokens_total{kind="error"} 20
weir_upstream_attempts_total{outcome="ok",target="r1"} 5
weir_upstream_attempts_total{target="r2",outcome="ok"} 6
weir_route_decision_seconds_bucket{le="0.001"} 51
weir_route_decision_seconds_bucket{le="0.01"} 101
weir_route_decision_seconds_bucket{le="+Inf"} 101
weir_route_decision_seconds_count 101)";

TEST_CASE("what was added between two pages") {
  const auto before = read_numbers(k_before);
  const auto added = since(read_numbers(k_after), before);
  CHECK(before.routes);
  CHECK(before.prompt_tokens == 100);
  CHECK(before.answers == std::map<std::string, double>{{"r1", 3}});
  CHECK(added.prompt_tokens == 1000);
  CHECK(added.predicted_tokens == 300);
  CHECK(added.error_tokens == 10);
  CHECK(added.answers == std::map<std::string, double>{{"r1", 2}, {"r2", 6}});
  CHECK(added.answers_in_all() == 8);
  CHECK(added.decision_s(0.25) == Approx(0.0005));
  CHECK(added.decision_s(0.75) == Approx(0.0055));
  CHECK(added.decision_s(1) == Approx(0.01));
}

TEST_CASE("beyond the last bound it is the bound; without decisions nothing") {
  auto numbers = read_numbers(
      "weir_route_decision_seconds_bucket{le=\"0.5\"} 1\n"
      "weir_route_decision_seconds_bucket{le=\"+Inf\"} 100\n");
  CHECK(numbers.decision_s(0.99) == 0.5);
  CHECK(gateway_numbers{}.decision_s(0.99) == 0);
  CHECK(since(numbers, numbers).decision_s(0.99) == 0);
}

TEST_CASE("other pages are passed over") {
  const auto* page =
      GENERATE("", "\n\n", "weir_prefix_tokens_total", "weir_prefix_tokens_total{kind=\"prompt\"} x", "{} 1",
               "<html> 1", "weir_prefix_tokens_total_more{kind=\"prompt\"} 7");
  INFO(page);
  const auto numbers = read_numbers(page);
  CHECK_FALSE(numbers.routes);
  CHECK(numbers.prompt_tokens == 0);
}

}  // namespace
}  // namespace weir::loadtest::replay
