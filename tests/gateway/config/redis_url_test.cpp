#include "gateway/config/redis_url.hpp"

#include <catch2/catch.hpp>

#include "gateway/config/load.hpp"

namespace weir::gateway::config {

TEST_CASE("addresses of Redis servers") {
  struct row {
    const char* text;
    bool tls;
    const char* user;
    const char* host;
    int port;
    int database;
  };
  const row rows[] = {
      {"redis://127.0.0.1", false, "", "127.0.0.1", 6379, 0},
      {"redis://127.0.0.1/", false, "", "127.0.0.1", 6379, 0},
      {"rediss://weir@redis.svc:7000/3", true, "weir", "redis.svc", 7000, 3},
      {"redis://[::1]:6380/15", false, "", "::1", 6380, 15},
      {"redis://h/1", false, "", "h", 6379, 1},
  };
  for (const auto& r : rows) {
    INFO(r.text);
    const auto url = parse_redis_url(r.text);
    REQUIRE(url.has_value());
    CHECK(url->tls == r.tls);
    CHECK(url->user == r.user);
    CHECK(url->host == r.host);
    CHECK(url->port == r.port);
    CHECK(url->database == r.database);
  }
}

TEST_CASE("addresses of Redis servers that are refused, and never repeated") {
  const char* const rows[] = {
      "",
      "canary",
      "http://canary",
      "redis:/canary",
      "redis://",
      "redis://:6379",
      "redis://h:0",
      "redis://h:65536",
      "redis://h:",
      "redis://h:1x",
      "redis://h/x",
      "redis://h/-1",
      "redis://h/1/2",
      "redis://h?db=1",
      "redis://user:canary@h",
      "redis://:canary@h",
      "redis://@h",
      "redis://u r@h",
      "redis://[::1",
      "redis://[]",
      "redis://[h]",
      "redis://h/99999999999999999999",
      "redis://h\n",
  };
  for (const char* const text : rows) {
    INFO(text);
    const auto url = parse_redis_url(text);
    REQUIRE_FALSE(url.has_value());
    CHECK(url.error().find("canary") == std::string::npos);
    CHECK_FALSE(url.error().empty());
  }
}

#ifdef WEIR_REDIS
constexpr bool k_is_built = true;
#else
constexpr bool k_is_built = false;
#endif

TEST_CASE("faults of the redis section") {
  struct row {
    const char* yaml;
    const char* key;
  };
  const row rows[] = {
      {"redis: {}", "redis.url"},
      {"redis: {url: 'redis://u:secret@h'}", "redis.url"},
      {"redis: {url: 'redis://u@h'}", "redis.password_file"},
      {"redis: {url: 'redis://h', ca_file: x.pem}", "redis.ca_file"},
      {"redis: {url: 'redis://h', timeout_ms: 0}", "redis.timeout_ms"},
      {"redis: {url: 'redis://h', lease_ms: 99}", "redis.lease_ms"},
      {"redis: {url: 'redis://h', rates_when_down: open}", "redis.rates_when_down"},
      {"redis: {url: 'redis://h', password: secret}", "redis.password"},
  };
  for (const auto& r : rows) {
    INFO(r.yaml);
    const auto got = parse(r.yaml, "weir.yaml");
    REQUIRE_FALSE(got.has_value());
    CHECK(got.error().back().key == r.key);
    CHECK(to_text(got.error()).find("secret") == std::string::npos);
  }
  CHECK(parse("redis: {url: 'redis://h'}", "weir.yaml").has_value() == k_is_built);
}

}  // namespace weir::gateway::config
