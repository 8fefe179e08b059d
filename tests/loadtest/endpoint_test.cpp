#include "loadtest/endpoint.hpp"

#include <catch2/catch.hpp>

namespace weir::loadtest {
namespace {

TEST_CASE("addresses with a port are read") {
  const auto [text, host, port] = GENERATE(table<const char*, const char*, int>(
      {{"127.0.0.1:80", "127.0.0.1", 80}, {"[::1]:9", "::1", 9}, {"localhost:0", "127.0.0.1", 0}}));
  const auto endpoint = parse_endpoint(text);
  REQUIRE(endpoint);
  CHECK(endpoint->address().to_string() == host);
  CHECK(endpoint->port() == port);
}

TEST_CASE("other text is refused") {
  const auto* text =
      GENERATE("", "127.0.0.1", "127.0.0.1:", ":80", "host:80", "127.0.0.1:65536", "127.0.0.1:-1");
  INFO(text);
  CHECK_FALSE(parse_endpoint(text));
}

TEST_CASE("http URLs are read as far as their authority") {
  const auto [text, host, port] =
      GENERATE(table<const char*, const char*, const char*>({{"http://127.0.0.1:80", "127.0.0.1", "80"},
                                                             {"http://a.b:9/v1", "a.b", "9"},
                                                             {"http://host", "host", "80"}}));
  const auto at = parse_http_url(text);
  REQUIRE(at);
  CHECK(at->host == host);
  CHECK(at->port == port);
}

TEST_CASE("other URLs are refused") {
  const auto* text = GENERATE("", "https://host", "host:80", "http://", "http://:80", "http://host:");
  INFO(text);
  CHECK_FALSE(parse_http_url(text));
}

}  // namespace
}  // namespace weir::loadtest
