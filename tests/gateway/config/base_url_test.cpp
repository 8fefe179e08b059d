#include "gateway/config/base_url.hpp"

#include <catch2/catch.hpp>

namespace weir::gateway::config {

TEST_CASE("base addresses of targets") {
  struct row {
    const char* text;
    bool tls;
    const char* host;
    int port;
    const char* path;
    const char* authority;
  };
  const row rows[] = {
      {"http://127.0.0.1:8000/v1", false, "127.0.0.1", 8000, "/v1", "127.0.0.1:8000"},
      {"http://10.0.0.7", false, "10.0.0.7", 80, "/v1", "10.0.0.7"},
      {"https://api.example.com", true, "api.example.com", 443, "/v1", "api.example.com"},
      {"https://api.example.com/", true, "api.example.com", 443, "/v1", "api.example.com"},
      {"https://h:8443/openai/v1/", true, "h", 8443, "/openai/v1", "h:8443"},
      {"http://[::1]:9000/v1", false, "::1", 9000, "/v1", "[::1]:9000"},
      {"http://vllm_0.svc:8000", false, "vllm_0.svc", 8000, "/v1", "vllm_0.svc:8000"},
  };
  for (const auto& r : rows) {
    INFO(r.text);
    const auto url = parse_base_url(r.text);
    REQUIRE(url.has_value());
    CHECK(url->tls == r.tls);
    CHECK(url->host == r.host);
    CHECK(url->port == r.port);
    CHECK(url->path == r.path);
    CHECK(url->authority == r.authority);
  }
}

TEST_CASE("base addresses that are refused") {
  const char* const rows[] = {
      "",
      "api.example.com",
      "ftp://h",
      "HTTP://h",
      "http://",
      "http:///v1",
      "http://:80",
      "http://h:0",
      "http://h:65536",
      "http://h:80x",
      "http://h:",
      "http://u:p@h/v1",
      "http://h/v1?x=1",
      "http://h/v1#f",
      "http://h/a b",
      "http://h/%2e",
      "http://h/../v1",
      "http://h//v1",
      "http://h\r\nx",
      "http://[::1",
      "http://[::1]x",
      "http://[fe80::1%eth0]/v1",
      "http://h\\v1",
      "http://.h",
      "http://h/v1/chat/completions",
      "http://h/v1/models/",
  };
  for (const char* text : rows) {
    INFO(text);
    const auto url = parse_base_url(text);
    REQUIRE_FALSE(url.has_value());
    CHECK_FALSE(url.error().empty());
  }
}

}  // namespace weir::gateway::config
