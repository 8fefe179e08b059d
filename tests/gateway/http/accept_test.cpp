// Accepting: ports, descriptors, several listeners.
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "tests/gateway/http/raw_client.hpp"
#include "tests/gateway/http/server_fixture.hpp"

namespace weir::gateway::http::testing {
namespace {

const std::string k_get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

// Leaves room for `count` more descriptors while it lives.
class descriptor_limit final {
 public:
  explicit descriptor_limit(unsigned count) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::dup(0);
    ::close(next);
    rlimit lowered = before_;
    lowered.rlim_cur = static_cast<rlim_t>(next) + count;
    ::setrlimit(RLIMIT_NOFILE, &lowered);
  }
  ~descriptor_limit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  descriptor_limit(const descriptor_limit&) = delete;
  descriptor_limit& operator=(const descriptor_limit&) = delete;

 private:
  rlimit before_{};
};

TEST_CASE("out of descriptors, clients are closed at once and service returns") {
#ifdef __SANITIZE_ADDRESS__
  WARN("SKIP: the sanitizers' checks of objects need descriptors themselves");
  return;
#endif
  server_fixture fixture({}, {.thread_count = 1});
  bool closed = false;
  {
    const descriptor_limit limit(1);
    raw_client client(fixture.port);  // takes the last descriptor
    closed = client.wait_closed();
  }
  CHECK(closed);
  CHECK(fixture.edge.counters().accept_failures >= 1);
  raw_client client(fixture.port);
  client.send(k_get);
  CHECK(client.read_response()->status == 200);
}

TEST_CASE("listeners have their own dispatchers, and an admin one outlives a drain") {
  echo_dispatcher api;
  echo_dispatcher admin;
  server edge({.thread_count = 2}, [](std::string_view) {});
  listen_spec spec;
  spec.handler = &api;
  const auto api_bound = edge.listen(spec);
  spec.handler = &admin;
  spec.outlives_drain = true;
  const auto admin_bound = edge.listen(spec);
  REQUIRE((api_bound && admin_bound));
  edge.start();
  raw_client admin_client(admin_bound->port);
  raw_client api_client(api_bound->port);
  for (raw_client* client : {&admin_client, &api_client}) {
    client->send(k_get);
    CHECK(client->read_response()->status == 200);
  }
  CHECK(edge.drain(std::chrono::milliseconds(5000)) == 0);
  CHECK(api_client.wait_closed());
  CHECK_THROWS(raw_client(api_bound->port));
  admin_client.send(k_get);
  CHECK(admin_client.read_response()->status == 200);
  raw_client late(admin_bound->port);
  late.send(k_get);
  CHECK(late.read_response()->status == 200);
  edge.stop();
  CHECK(api.served == 1);
  CHECK(admin.served == 3);
}

TEST_CASE("clients that take every connection do not shut out the admin listener, nor the other way round") {
  echo_dispatcher handler;
  server edge({.thread_count = 1, .connections_max = 2}, [](std::string_view) {});
  listen_spec spec;
  spec.handler = &handler;
  const auto api = edge.listen(spec);
  spec.outlives_drain = true;
  const auto admin = edge.listen(spec);
  REQUIRE((api && admin));
  edge.start();
  const auto status_at = [](raw_client& client) {
    client.send(k_get);
    return client.read_response()->status;
  };
  std::vector<std::unique_ptr<raw_client>> clients;
  const auto fill = [&](std::uint16_t port, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      clients.push_back(std::make_unique<raw_client>(port));
      CHECK(status_at(*clients.back()) == 200);
    }
    raw_client refused(port);
    CHECK(refused.read_response()->status == 503);
  };
  fill(api->port, 2);
  fill(admin->port, k_admin_connections_max);
  clients.clear();
  raw_client later(api->port);
  CHECK(status_at(later) == 200);
}

TEST_CASE("over the cap every client reads its 503, also behind many that only wait") {
  echo_dispatcher handler;
  server edge({.thread_count = 1, .connections_max = 1}, [](std::string_view) {});
  listen_spec spec;
  spec.handler = &handler;
  const auto api = edge.listen(spec);
  REQUIRE(api);
  edge.start();
  raw_client holder(api->port);
  holder.send(k_get);
  REQUIRE(holder.read_response()->status == 200);
  std::vector<std::unique_ptr<raw_client>> silent;
  for (std::size_t i = 0; i < k_refusals_max + 16; ++i) {
    silent.push_back(std::make_unique<raw_client>(api->port));
    CHECK(silent.back()->read_response()->status == 503);
  }
  for (int i = 0; i < 100; ++i) {
    raw_client client(api->port);
    client.send(k_get);
    const auto response = client.read_response();
    REQUIRE(response);
    CHECK(response->status == 503);
  }
  CHECK(edge.counters().refused == k_refusals_max + 116);
}

TEST_CASE("an address that cannot be bound is an error that names it") {
  server edge({}, [](std::string_view) {});
  echo_dispatcher handler;
  listen_spec spec;
  spec.handler = &handler;
  for (const std::string address : {"192.0.2.1", "localhost", ""}) {
    spec.address = address;
    const auto bound = edge.listen(spec);
    REQUIRE_FALSE(bound);
    CHECK(bound.error().starts_with("cannot listen on " + address + ":0: "));
  }
}

}  // namespace
}  // namespace weir::gateway::http::testing
