// What a session does for a correct client: order, keep-alive, bodies, streams, and handlers that fail.
#include <catch2/catch.hpp>
#include <string>

#include "tests/gateway/http/raw_client.hpp"
#include "tests/gateway/http/server_fixture.hpp"

namespace weir::gateway::http::testing {
namespace {

std::string get(const std::string& target, const std::string& fields = {}) {
  return "GET " + target + " HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
}

std::string post(const std::string& body, const std::string& fields = {}) {
  return "POST /echo HTTP/1.1\r\nHost: a\r\n" + fields + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

TEST_CASE("a connection serves many requests") {
  server_fixture fixture;
  raw_client client(fixture.port);
  for (int i = 0; i < 50; ++i) {
    client.send(get("/?" + std::to_string(i)));
    const auto answer = client.read_response();
    REQUIRE(answer);
    CHECK(answer->body == "hello " + std::to_string(i));
    CHECK(answer->headers.contains("date"));
    CHECK_FALSE(answer->headers.contains("connection"));
  }
  client.send(get("/", "Connection: close\r\n"));
  CHECK(client.read_response()->headers.at("connection") == "close");
  CHECK(client.wait_closed());
}

TEST_CASE("pipelined requests are answered in order") {
  server_fixture fixture;
  raw_client client(fixture.port);
  std::string all;
  for (int i = 0; i < 500; ++i) all += i % 2 == 0 ? get("/?" + std::to_string(i)) : post(std::to_string(i));
  client.send(get("/wait?brief") + all);
  CHECK(client.read_response()->body == "waited");
  for (int i = 0; i < 500; ++i) {
    const auto answer = client.read_response();
    REQUIRE(answer);
    CHECK(answer->body == (i % 2 == 0 ? "hello " : "") + std::to_string(i));
  }
}

TEST_CASE("request ids are the client's or fresh") {
  server_fixture fixture;
  raw_client client(fixture.port);
  struct row {
    std::string sent;
    bool kept;
  };
  const std::vector<row> rows{{"abc-1.2_3", true},
                              {std::string(128, 'a'), true},
                              {std::string(129, 'a'), false},
                              {"a b", false},
                              {"", false},
                              {"a\x80", false}};
  for (const auto& r : rows) {
    client.send(get("/", "X-Request-Id: " + r.sent + "\r\n"));
    const std::string id = client.read_response()->headers.at("x-request-id");
    CHECK((id == r.sent) == r.kept);
    CHECK(!id.empty());
  }
}

TEST_CASE("HEAD has a length and no body") {
  server_fixture fixture;
  raw_client client(fixture.port);
  client.send("HEAD /?x HTTP/1.1\r\nHost: a\r\n\r\nHEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n" + get("/?y"));
  CHECK(client.read_response(true)->headers.at("content-length") == "7");
  CHECK(client.read_response(true)->status == 200);
  CHECK(client.read_response()->body == "hello y");
}

TEST_CASE("204 has neither length nor body") {
  server_fixture fixture;
  raw_client client(fixture.port);
  client.send(get("/no-content") + get("/?y"));
  const auto answer = client.read_response();
  CHECK(answer->status == 204);
  CHECK_FALSE(answer->headers.contains("content-length"));
  CHECK(client.read_response()->body == "hello y");
}

TEST_CASE("100 Continue comes when the handler wants the body, and only then") {
  server_fixture fixture;
  const std::string expect = "Host: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
  raw_client client(fixture.port);
  client.send("POST /echo HTTP/1.1\r\n" + expect);
  CHECK(client.read_some() == "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("abc" + get("/?next"));
  CHECK(client.read_response()->body == "abc");
  CHECK(client.read_response()->body == "hello next");
  CHECK(client.interim_count() == 0);

  raw_client refused(fixture.port);
  refused.send("POST /unread HTTP/1.1\r\n" + expect);
  const auto final_answer = refused.read_response();
  CHECK(final_answer->status == 200);
  CHECK(final_answer->headers.at("connection") == "close");
  CHECK(refused.interim_count() == 0);
  CHECK(refused.wait_closed());
}

TEST_CASE("an expected body over the limit is refused without 100") {
  server_fixture fixture;
  raw_client client(fixture.port);
  client.send("POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5000\r\n\r\n");
  CHECK(client.read_response()->status == 413);
  CHECK(client.interim_count() == 0);
  CHECK(client.wait_closed());
}

TEST_CASE("a small unread body is drained, a large one closes") {
  server_fixture fixture;
  raw_client client(fixture.port);
  client.send("POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n" + std::string(2000, 'x'));
  CHECK(client.read_response()->status == 200);
  client.send(get("/?next"));
  CHECK(client.read_response()->body == "hello next");

  raw_client large(fixture.port);
  large.send("POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n" +
             std::string(3'000'000, 'x'));
  const auto answer = large.read_response();
  REQUIRE(answer);
  CHECK(answer->headers.at("connection") == "close");
  CHECK(large.wait_closed());
}

TEST_CASE("413 and 503 are JSON answers") {
  server_fixture fixture({}, {.thread_count = 1, .body_budget_bytes = 256 * 1024});
  fixture.handler.body_limit_bytes = 1 << 20;
  raw_client too_large(fixture.port);
  too_large.send(post(std::string((1 << 20) + 1, 'x')));
  const auto first = too_large.read_response();
  REQUIRE(first);
  CHECK(first->status == 413);
  CHECK(first->body.find("1048576") != std::string::npos);

  raw_client over_budget(fixture.port);
  over_budget.send(post(std::string(1 << 20, 'x')));
  CHECK(over_budget.read_response()->status == 503);

  raw_client fits(fixture.port);
  fits.send(post(std::string(200'000, 'x')));
  CHECK(fits.read_response()->body.size() == 200'000);
  CHECK(eventually([&] { return fixture.edge.body_bytes_held() == 0; }));
}

TEST_CASE("large bodies and replies pass unchanged") {
  server_fixture fixture;
  fixture.handler.body_limit_bytes = 64 << 20;
  std::string body(5'000'000, 0);
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 31 + i / 256);
  raw_client client(fixture.port);
  std::thread sender([&] { client.send(post(body)); });
  const auto answer = client.read_response();
  sender.join();
  REQUIRE(answer);
  CHECK(answer->body == body);
}

TEST_CASE("streams are chunked in HTTP/1.1 and end with the connection in HTTP/1.0") {
  server_fixture fixture;
  const std::string events = "data: 0\n\ndata: 1\n\ndata: 2\n\n";
  raw_client client(fixture.port);
  client.send(get("/stream") + get("/?next"));
  const auto streamed = client.read_response();
  CHECK(streamed->headers.at("transfer-encoding") == "chunked");
  CHECK(streamed->headers.at("x-stream") == "yes");
  CHECK(streamed->body == events);
  CHECK(client.read_response()->body == "hello next");

  raw_client old(fixture.port);
  old.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const auto closed = old.read_response();
  CHECK_FALSE(closed->headers.contains("transfer-encoding"));
  CHECK(closed->headers.at("connection") == "close");
  CHECK(closed->body == events);
}

TEST_CASE("HTTP/1.0 keeps a connection only where asked") {
  server_fixture fixture;
  raw_client kept(fixture.port);
  kept.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  CHECK(kept.read_response()->headers.at("connection") == "keep-alive");
  kept.send("GET / HTTP/1.0\r\n\r\n");
  CHECK(kept.read_response()->headers.at("connection") == "close");
  CHECK(kept.wait_closed());
}

TEST_CASE("an aborted stream never looks whole") {
  server_fixture fixture;
  raw_client client(fixture.port);
  client.send(get("/abort"));
  const auto cut = client.read_response();
  REQUIRE(cut);
  CHECK_FALSE(cut->complete);
  CHECK(cut->body == "data: 0\n\ndata: 1\n\ndata: 2\n\n");
}

TEST_CASE("a handler that fails gives 500 and a close") {
  server_fixture fixture;
  for (const std::string path : {"/throw", "/nothing", "/split"}) {
    INFO(path);
    raw_client client(fixture.port);
    client.send(get(path) + get("/"));
    const auto answer = client.read_response();
    REQUIRE(answer);
    CHECK(answer->status == 500);
    CHECK(answer->headers.at("content-type") == "application/json");
    CHECK_FALSE(answer->headers.contains("set-cookie"));
    CHECK(client.wait_closed());
  }
  CHECK(fixture.faults_seen() == std::vector<std::string>{"handler: thrown by a test"});
}

}  // namespace
}  // namespace weir::gateway::http::testing
