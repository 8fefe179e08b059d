#include "gateway/admin/access.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace weir::gateway::admin {

namespace {

const std::string k_key = "0123456789abcdef0123456789abcdef";

using fields = std::vector<std::pair<std::string, std::string>>;

http::request_head head_with(const fields& all) {
  http::request_head head{.method = boost::beast::http::verb::post};
  for (const auto& [name, value] : all) head.fields.insert(name, value);
  return head;
}

int status_of(const result<void>& checked) {
  return checked ? 200 : info(checked.error().code).status;
}

}  // namespace

TEST_CASE("a host is ours by name or by loopback address, with any port") {
  const std::vector<std::string> allowed{"admin.internal", "box:9999"};
  for (const char* host : {"localhost", "LocalHost:1", "127.0.0.1", "127.255.0.3:65535", "[::1]", "[::1]:9",
                           "ADMIN.internal", "admin.internal:1", "box:9999"}) {
    INFO(host);
    CHECK(is_own_host(host, allowed));
  }
  for (const char* host : {"",
                           ":",
                           ":80",
                           "localhost.",
                           "localhost.x",
                           "xlocalhost",
                           "evil",
                           "0.0.0.0",
                           "127.1",
                           "128.0.0.1",
                           "127.0.0.1.x",
                           "0x7f.0.0.1",
                           "2130706433",
                           "[::]",
                           "[::ffff:127.0.0.1]",
                           "::1",
                           "[::1",
                           "box",
                           "box:1",
                           "localhost:x",
                           "localhost/",
                           "a@localhost",
                           "localhost, evil",
                           "localhost evil"}) {
    INFO(host);
    CHECK_FALSE(is_own_host(host, allowed));
  }
  CHECK_FALSE(is_own_host(std::string_view("[::1\0@evil]", 12), allowed));
}

TEST_CASE("a request without one Host that is ours is misdirected") {
  CHECK(status_of(check_host(head_with({{"Host", "localhost:9090"}}), {})) == 200);
  CHECK(status_of(check_host(head_with({}), {})) == 421);
  CHECK(status_of(check_host(head_with({{"Host", "localhost"}, {"Host", "localhost"}}), {})) == 421);
}

TEST_CASE("what a browser sends for a page from elsewhere is refused") {
  struct row {
    const char* name;
    fields sent;
    int status;
  };
  const row rows[] = {
      {"no browser", {}, 200},
      {"our page", {{"Sec-Fetch-Site", "same-origin"}, {"Origin", "http://127.0.0.1:9090"}}, 200},
      {"typed", {{"Sec-Fetch-Site", "none"}}, 200},
      {"a foreign page", {{"Sec-Fetch-Site", "cross-site"}}, 403},
      {"a page of a sibling", {{"Sec-Fetch-Site", "same-site"}}, 403},
      {"a word of the future", {{"Sec-Fetch-Site", "x"}}, 403},
      {"two words", {{"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", "none"}}, 403},
      {"an old browser", {{"Origin", "https://evil.example"}}, 403},
      {"a sandbox", {{"Origin", "null"}}, 403},
      {"nothing", {{"Origin", ""}}, 403},
      {"two origins", {{"Origin", "http://localhost"}, {"Origin", "http://localhost"}}, 403},
      {"a path", {{"Origin", "http://localhost/"}}, 403},
      {"another scheme", {{"Origin", "ftp://localhost"}}, 403},
  };
  for (const auto& r : rows) {
    INFO(r.name);
    CHECK(status_of(check_origin(head_with(r.sent), {})) == r.status);
  }
}

TEST_CASE("the admin key comes as bearer token or in a field of its own, whole") {
  const std::optional<auth::admin_key> key(std::in_place, k_key);
  CHECK(status_of(check_key(head_with({{"Authorization", "Bearer " + k_key}}), key)) == 200);
  CHECK(status_of(check_key(head_with({{"x-admin-key", k_key}}), key)) == 200);
  for (std::size_t n = 0; n < k_key.size(); ++n) {
    CHECK(status_of(check_key(head_with({{"x-admin-key", k_key.substr(0, n)}}), key)) == 401);
    CHECK(status_of(check_key(head_with({{"x-admin-key", k_key.substr(n + 1)}}), key)) == 401);
  }
  CHECK(status_of(check_key(head_with({}), key)) == 401);
  CHECK(status_of(check_key(head_with({{"x-api-key", k_key}}), key)) == 401);
  CHECK(status_of(check_key(head_with({{"Authorization", k_key}, {"x-admin-key", k_key}}), key)) == 401);
  CHECK(status_of(check_key(head_with({{"x-admin-key", k_key}, {"x-admin-key", k_key}}), key)) == 401);
  CHECK(status_of(check_key(head_with({{"x-admin-key", k_key}}), std::nullopt)) == 403);
}

}  // namespace weir::gateway::admin
