// The profile's tables over a real listener: every refusal is one JSON answer and a close, and nothing sent
// behind it is ever taken for a request.
#include <catch2/catch.hpp>
#include <string>

#include "tests/gateway/http/raw_client.hpp"
#include "tests/gateway/http/server_fixture.hpp"
#include "tests/gateway/http/wire_cases.hpp"

namespace weir::gateway::http::testing {
namespace {

const std::string k_smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

void expect_refusal(raw_client& client, int status) {
  const auto refusal = client.read_response();
  REQUIRE(refusal);
  CHECK(refusal->status == status);
  CHECK(refusal->headers.at("content-type") == "application/json");
  CHECK(refusal->headers.at("connection") == "close");
  CHECK(refusal->headers.at("x-request-id").size() == 32);
  CHECK(refusal->body.starts_with("{\"error\":"));
  CHECK(client.wait_closed());
}

void deliver(raw_client& client, const std::string& bytes, bool bytewise) {
  if (bytewise) {
    client.send_bytewise(bytes);
  } else {
    client.send(bytes);
  }
}

void check_head(server_fixture& fixture, const head_case& c, bool bytewise) {
  INFO(c.name << (bytewise ? ", byte by byte" : ", whole"));
  const int served_before = fixture.handler.served;
  raw_client client(fixture.port);
  if (c.status != 200) {
    deliver(client, c.bytes + "\r\n\r\n" + k_smuggled, bytewise);
    expect_refusal(client, c.status);
    CHECK(fixture.handler.served == served_before);
    return;
  }
  deliver(client, c.bytes, bytewise);
  const auto answer = client.read_response(c.bytes.find("HEAD ") != std::string::npos);
  REQUIRE(answer);
  CHECK(answer->status == 200);
  CHECK(fixture.handler.served == served_before + 1);
}

TEST_CASE("head rows over a socket") {
  server_fixture fixture;
  for (const auto& c : all_head_cases()) {
    if (c.status == 0) continue;
    check_head(fixture, c, false);
    if (c.bytes.size() < 4096) check_head(fixture, c, true);
  }
  CHECK(fixture.faults_seen().empty());
}

TEST_CASE("chunked rows over a socket") {
  server_fixture fixture;
  const std::string head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const auto& c : chunked_cases()) {
    if (c.status == 0 || !c.rest.empty()) continue;
    for (const bool bytewise : {false, true}) {
      if (bytewise && c.bytes.size() > 4096) continue;
      INFO(c.name << (bytewise ? ", byte by byte" : ", whole"));
      const int served_before = fixture.handler.served;
      raw_client client(fixture.port);
      deliver(client, head + c.bytes + (c.status == 200 ? "" : k_smuggled), bytewise);
      if (c.status != 200) {
        expect_refusal(client, c.status);
      } else {
        const auto answer = client.read_response();
        REQUIRE(answer);
        CHECK(answer->status == 200);
        CHECK(answer->body == c.body);
      }
      CHECK(fixture.handler.served == served_before + 1);
    }
  }
  CHECK(fixture.faults_seen().empty());
}

TEST_CASE("a valid request before an invalid one is answered first") {
  server_fixture fixture;
  for (const bool bytewise : {false, true}) {
    raw_client client(fixture.port);
    deliver(client, "GET /?first HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n\r\n" + k_smuggled, bytewise);
    const auto first = client.read_response();
    REQUIRE(first);
    CHECK(first->body == "hello first");
    expect_refusal(client, 400);
  }
  CHECK(fixture.handler.served == 2);
}

TEST_CASE("bytes behind a chunked body are the next request") {
  server_fixture fixture;
  raw_client client(fixture.port);
  client.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\nX");
  CHECK(client.read_response()->body == "x");
  client.send(" / HTTP/1.1\r\n\r\n");
  expect_refusal(client, 501);
}

}  // namespace
}  // namespace weir::gateway::http::testing
