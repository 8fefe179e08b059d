// Clients that leave, stall or never read, and servers that drain.
#include <catch2/catch.hpp>
#include <string>

#include "tests/gateway/http/raw_client.hpp"
#include "tests/gateway/http/server_fixture.hpp"

namespace weir::gateway::http::testing {
namespace {

using std::chrono::milliseconds;

const std::string k_wait = "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n";

TEST_CASE("a client that leaves cancels its handler") {
  server_fixture fixture;
  int expected = 0;
  for (const std::string& request :
       {k_wait, std::string("POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"),
        k_wait + "GET / HTTP/1.1\r\nHost: a\r\n\r\n"}) {
    for (const std::string_view how : {"half-close", "reset", "close"}) {
      INFO(how << " after " << request);
      {
        raw_client client(fixture.port);
        client.send(request);
        REQUIRE(eventually([&] { return fixture.handler.waiting == 1; }));
        if (how == "reset") client.reset();
        if (how == "half-close") {
          client.half_close();
          CHECK(client.wait_closed());
        }
      }
      ++expected;
      CHECK(
          eventually([&] { return fixture.handler.cancelled == expected && fixture.handler.waiting == 0; }));
    }
  }
  CHECK(fixture.edge.counters().disconnects == static_cast<std::uint64_t>(expected));
  CHECK(fixture.faults_seen().empty());
}

TEST_CASE("a half-close may be allowed") {
  http_settings settings;
  settings.half_close_aborts = false;
  server_fixture fixture(settings);
  raw_client client(fixture.port);
  client.send("GET /wait?brief HTTP/1.1\r\nHost: a\r\n\r\n");
  client.half_close();
  const auto answer = client.read_response();
  REQUIRE(answer);
  CHECK(answer->body == "waited");
}

TEST_CASE("a body that stops half-way holds nothing") {
  server_fixture fixture;
  {
    raw_client client(fixture.port);
    client.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n" + std::string(500, 'x'));
    REQUIRE(eventually([&] { return fixture.edge.body_bytes_held() > 0; }));
  }
  CHECK(eventually([&] { return fixture.edge.body_bytes_held() == 0; }));
}

TEST_CASE("slow heads and stalled bodies get 408, idle connections a close") {
  http_settings settings;
  settings.head_timeout = milliseconds(200);
  settings.keep_alive_idle = milliseconds(200);
  settings.body_idle = milliseconds(200);
  server_fixture fixture(settings);
  raw_client head(fixture.port);
  head.send("GET / HTTP/1.1\r\nHo");
  CHECK(head.read_response()->status == 408);
  CHECK(head.wait_closed());

  raw_client body(fixture.port);
  body.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf");
  CHECK(body.read_response()->status == 408);
  CHECK(body.wait_closed());

  raw_client silent(fixture.port);
  CHECK(silent.wait_closed());

  raw_client idle(fixture.port);
  idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  CHECK(idle.read_response()->status == 200);
  CHECK(idle.wait_closed());
  CHECK(fixture.edge.counters().head_timeouts == 1);
}

TEST_CASE("a body below the least rate gets 408") {
  http_settings settings;
  settings.body_grace = milliseconds(200);
  settings.body_rate_min = 1'000'000;
  server_fixture fixture(settings);
  raw_client client(fixture.port);
  client.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  std::thread trickle([&] {
    for (int i = 0; i < 100; ++i) {
      client.send("1\r\nx\r\n");
      std::this_thread::sleep_for(milliseconds(10));
    }
  });
  CHECK(client.read_response()->status == 408);
  trickle.join();
}

TEST_CASE("a client that does not read is dropped") {
  http_settings settings;
  settings.write_idle = milliseconds(200);
  server_fixture fixture(settings);
  raw_client client(fixture.port);
  client.send("GET /flood HTTP/1.1\r\nHost: a\r\n\r\n");
  CHECK(eventually([&] { return fixture.handler.cancelled == 1; }));
}

TEST_CASE("connections over the cap get 503") {
  server_fixture fixture({}, {.thread_count = 1, .connections_max = 1});
  raw_client first(fixture.port);
  first.send(k_wait);
  REQUIRE(eventually([&] { return fixture.handler.waiting == 1; }));
  raw_client second(fixture.port);
  second.send(k_wait);
  const auto refusal = second.read_response();
  REQUIRE(refusal);
  CHECK(refusal->status == 503);
  CHECK(refusal->headers.contains("retry-after"));
  CHECK(fixture.edge.counters().refused == 1);
}

TEST_CASE("a drain finishes what runs, closes what is idle and cuts what is late") {
  server_fixture fixture;
  raw_client idle(fixture.port);
  idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  CHECK(idle.read_response()->status == 200);
  raw_client brief(fixture.port);
  brief.send("GET /wait?brief HTTP/1.1\r\nHost: a\r\n\r\n");
  raw_client stuck(fixture.port);
  stuck.send(k_wait);
  REQUIRE(eventually([&] { return fixture.handler.waiting == 2; }));
  std::size_t cut_count = 0;
  std::thread controller([&] { cut_count = fixture.edge.drain(milliseconds(1000)); });
  CHECK(idle.wait_closed());
  {
    const auto answer = brief.read_response();
    REQUIRE(answer);
    CHECK(answer->body == "waited");
    CHECK(answer->headers.at("connection") == "close");
  }
  CHECK(brief.wait_closed());
  {
    const auto answer = stuck.read_response();
    REQUIRE(answer);
    CHECK(answer->status == 503);
  }
  CHECK(stuck.wait_closed());
  controller.join();
  CHECK(fixture.handler.cancelled == 1);
  CHECK(cut_count <= 2);
  CHECK(cut_count >= 1);
  CHECK_THROWS(raw_client(fixture.port));
}

TEST_CASE("a stop cancels handlers and joins") {
  server_fixture fixture;
  raw_client client(fixture.port);
  client.send(k_wait);
  REQUIRE(eventually([&] { return fixture.handler.waiting == 1; }));
  fixture.edge.stop();
  CHECK(fixture.handler.cancelled == 1);
  CHECK(client.wait_closed());
}

}  // namespace
}  // namespace weir::gateway::http::testing
