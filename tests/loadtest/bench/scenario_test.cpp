#include "loadtest/bench/scenario.hpp"

#include <simdjson.h>

#include <catch2/catch.hpp>

namespace weir::loadtest::bench {
namespace {

TEST_CASE("requests are JSON of the promised size and differ where they should") {
  for (const auto& of : scenario_table()) {
    request_source source(of, "127.0.0.1", "mock", "key", 1);
    const auto first = source.bytes();
    source.vary();
    const auto second = source.bytes();
    source.vary();
    INFO(of.name);
    const auto body = second.substr(second.find("\r\n\r\n") + 4);
    CHECK(body.size() == of.body_bytes);
    CHECK(second.find("content-length: " + std::to_string(of.body_bytes) + "\r\n") != std::string::npos);
    simdjson::dom::parser parser;
    CHECK(parser.parse(body)["model"].get_string().value() == "mock");
    CHECK(parser.parse(body)["stream"].error() == (of.stream ? simdjson::SUCCESS : simdjson::NO_SUCH_FIELD));
    REQUIRE(first.size() == second.size());
    std::size_t same = 0;
    while (same < second.size() && second[same] == source.bytes()[same]) ++same;
    if (of.differs == variation::none) CHECK(same == second.size());
    if (of.differs == variation::tail) CHECK((same >= second.size() - 205 && same < second.size() - 190));
    if (of.differs == variation::all) CHECK(same < second.size() - of.body_bytes + 200);
  }
}

TEST_CASE("scenarios are found by name") {
  for (const auto& of : scenario_table()) CHECK(find_scenario(of.name) == &of);
  CHECK(find_scenario("absent") == nullptr);
}

}  // namespace
}  // namespace weir::loadtest::bench
