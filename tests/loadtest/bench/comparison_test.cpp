#include "loadtest/bench/comparison.hpp"

#include <simdjson.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "loadtest/bench/process_usage.hpp"

namespace weir::loadtest::bench {
namespace {

measurement measured(const char* scenario, const char* target, double p50_s, double cpu_s) {
  measurement out{.of = find_scenario(scenario), .target = target};
  out.requests = 1'000;
  out.requests_per_s = 500;
  out.times.add(p50_s);
  out.cpu_s = cpu_s;
  return out;
}

std::string row_of(const std::string& table, const std::string& target) {
  const auto at = table.find(target);
  REQUIRE(at != std::string::npos);
  return table.substr(at, table.find('\n', at) - at);
}

TEST_CASE("the table shows what a target adds to the direct way, and its ratios to nginx") {
  const std::vector<measurement> all{measured("json-c1", "direct", 100e-6, 0),
                                     measured("json-c1", "nginx", 300e-6, 0.02),
                                     measured("json-c1", "weir", 200e-6, 0.03)};
  const auto row = row_of(comparison_table(all), "weir");
  CHECK(row.find(" 30.0") != std::string::npos);  // CPU us per request
  CHECK(row.find(" 100.") != std::string::npos);  // added p50
  CHECK(row.find(" 0.50") != std::string::npos);  // of nginx's added p50
  CHECK(row.find(" 1.50") != std::string::npos);  // of nginx's CPU
  simdjson::dom::parser parser;
  const auto text = comparison_json(all);
  const simdjson::dom::element json = parser.parse(text);
  CHECK(json.at_pointer("/2/cpu_us_per_request").get_double().value() == Approx(30));
}

TEST_CASE("a measurement with failures shows them and no number, and is no yardstick") {
  auto nginx = measured("json-c1", "nginx", 300e-6, 0.02);
  nginx.failures = 2;
  nginx.failure = "status 502";
  const auto table = comparison_table(
      {measured("json-c1", "direct", 100e-6, 0), nginx, measured("json-c1", "weir", 200e-6, 0.03)});
  CHECK(row_of(table, "nginx    ").find("2 FAILED beside 1000 answers: status 502") != std::string::npos);
  CHECK(row_of(table, "weir").find("1.50") == std::string::npos);
}

TEST_CASE("a process's use of the machine is read") {
  const auto first = read_usage(getpid());
  CHECK(first.rss_bytes > 0);
  volatile std::uint64_t work = 0;
  while (read_usage(getpid()).cpu_s <= first.cpu_s) work = work + 1;  // CPU time moves on
  CHECK(read_usage(0x7fffffff).rss_bytes == 0);
}

}  // namespace
}  // namespace weir::loadtest::bench
