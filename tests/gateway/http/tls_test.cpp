#include <openssl/ssl.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/gateway/http/raw_client.hpp"
#include "tests/gateway/http/server_fixture.hpp"
#include "tests/gateway/http/tls_client.hpp"

namespace weir::gateway::http::testing {
namespace {

const std::string k_get = "GET /?x HTTP/1.1\r\nHost: a\r\n\r\n";

TEST_CASE("TLS 1.2 and 1.3 serve, older versions are refused") {
  const test_certificate certificate("first");
  server_fixture fixture({}, {.thread_count = 2}, certificate.files());
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    tls_client client(fixture.port, version);
    REQUIRE(client.connected());
    CHECK(client.protocol() == "http/1.1");
    for (int i = 0; i < 3; ++i) {
      client.send(k_get);
      CHECK(client.read_until("hello x").starts_with("HTTP/1.1 200 OK\r\n"));
    }
  }
  CHECK_FALSE(tls_client(fixture.port, TLS1_1_VERSION).connected());
  CHECK_FALSE(tls_client(fixture.port, 0, "h2").connected());
  CHECK(tls_client(fixture.port, 0, "").connected());
}

TEST_CASE("a TLS reply ends in close_notify") {
  const test_certificate certificate("first");
  server_fixture fixture({}, {.thread_count = 1}, certificate.files());
  tls_client client(fixture.port);
  client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  CHECK(client.read_until("hello ").find("connection: close") != std::string::npos);
  CHECK(client.wait_close_notify());

  tls_client bad(fixture.port);
  bad.send("GET / HTTP/1.1\r\n\r\n" + k_get);
  CHECK(bad.read_until("no Host field").starts_with("HTTP/1.1 400"));
  CHECK(bad.read_until("HTTP").find("HTTP") == std::string::npos);
}

TEST_CASE("streams and bodies pass under TLS") {
  const test_certificate certificate("first");
  server_fixture fixture({}, {.thread_count = 1}, certificate.files());
  fixture.handler.body_limit_bytes = 1 << 20;
  tls_client client(fixture.port);
  client.send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
  CHECK(client.read_until("\r\n0\r\n\r\n").find("9\r\ndata: 1\n\n\r\n") != std::string::npos);
  const std::string body(300'000, 'b');
  client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 300001\r\n\r\n" + body + "!");
  CHECK(client.read_until("b!").ends_with("\r\n\r\n" + body + "!"));
}

TEST_CASE("an aborted stream ends without close_notify") {
  const test_certificate certificate("first");
  server_fixture fixture({}, {.thread_count = 1}, certificate.files());
  tls_client client(fixture.port);
  client.send("GET /abort HTTP/1.1\r\nHost: a\r\n\r\n");
  client.read_until("data: 2\n\n\r\n");
  CHECK_FALSE(client.wait_close_notify());
}

TEST_CASE("a TLS client that leaves cancels its handler") {
  const test_certificate certificate("first");
  server_fixture fixture({}, {.thread_count = 1}, certificate.files());
  {
    tls_client client(fixture.port);
    client.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
    REQUIRE(eventually([&] { return fixture.handler.waiting == 1; }));
  }
  CHECK(eventually([&] { return fixture.handler.cancelled == 1; }));
}

TEST_CASE("plain bytes on a TLS port, and TLS on a plain one, end at once") {
  const test_certificate certificate("first");
  server_fixture secured({}, {.thread_count = 1}, certificate.files());
  raw_client plain(secured.port);
  plain.send(k_get);
  plain.read_some();  // an alert, perhaps
  CHECK(plain.wait_closed());
  CHECK(secured.handler.served == 0);
  CHECK(eventually([&] { return secured.edge.counters().handshake_failures == 1; }));

  server_fixture open;
  CHECK_FALSE(tls_client(open.port).connected());
}

TEST_CASE("a silent TLS client is dropped") {
  const test_certificate certificate("first");
  http_settings settings;
  settings.handshake_timeout = std::chrono::milliseconds(200);
  server_fixture fixture(settings, {.thread_count = 1}, certificate.files());
  raw_client silent(fixture.port);
  CHECK(silent.wait_closed());
}

TEST_CASE("new connections use a reloaded certificate, old ones live on") {
  const test_certificate certificate("first");
  server_fixture fixture({}, {.thread_count = 2}, certificate.files());
  tls_client before(fixture.port);
  CHECK(before.peer_name() == "first");
  certificate.renew("second");
  REQUIRE(fixture.edge.reload_tls(0));
  CHECK(eventually([&] { return tls_client(fixture.port).peer_name() == "second"; }));
  before.send(k_get);
  CHECK(before.read_until("hello x").starts_with("HTTP/1.1 200"));

  std::ofstream(certificate.files().private_key) << "no key";
  const auto failed = fixture.edge.reload_tls(0);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().find(certificate.files().private_key) != std::string::npos);
  CHECK(tls_client(fixture.port).connected());
}

TEST_CASE("files that are missing are named") {
  server edge({}, [](std::string_view) {});
  echo_dispatcher handler;
  listen_spec spec;
  spec.handler = &handler;
  spec.tls = tls_files{"/nonexistent/cert.pem", "/nonexistent/key.pem"};
  const auto bound = edge.listen(spec);
  REQUIRE_FALSE(bound);
  CHECK(bound.error().find("/nonexistent/cert.pem") != std::string::npos);
}

}  // namespace
}  // namespace weir::gateway::http::testing
