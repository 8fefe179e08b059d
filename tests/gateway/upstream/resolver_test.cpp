#include "gateway/upstream/resolver.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

namespace weir::gateway::upstream {
namespace {

using clock = std::chrono::steady_clock;
using boost::asio::ip::make_address;

clock::time_point soon() {
  return clock::now() + std::chrono::seconds(20);
}

bool all_loopback(const address_list& addresses, std::uint16_t port) {
  return std::all_of(addresses.begin(), addresses.end(), [port](const auto& endpoint) {
    return endpoint.address().is_loopback() && endpoint.port() == port;
  });
}

}  // namespace

TEST_CASE("a numeric address is known at once") {
  resolver names;
  for (const char* host : {"127.0.0.9", "::1"}) {
    INFO(host);
    const auto found = names.follow(host, 8000)->get();
    REQUIRE(found);
    REQUIRE(found->size() == 1);
    CHECK(found->front().address() == make_address(host));
    CHECK(found->front().port() == 8000);
  }
}

TEST_CASE("a name is looked up away from the caller") {
  resolver names;
  const auto local = names.follow("localhost", 9000);
  local->wait_looked_up(soon());
  const auto found = local->get();
  REQUIRE(found);
  CHECK_FALSE(found->empty());
  CHECK(all_loopback(*found, 9000));
  CHECK(local->failure().empty());
}

TEST_CASE("a name that does not exist says so and blocks nobody") {
  resolver names;
  const auto unknown = names.follow("no-such-host.invalid", 80);
  const auto known = names.follow("localhost", 80);
  known->wait_looked_up(soon());
  CHECK(known->get());
  unknown->wait_looked_up(soon());
  CHECK_FALSE(unknown->get());
  CHECK_FALSE(unknown->failure().empty());
}

TEST_CASE("a failed lookup keeps the last good addresses") {
  host_addresses name("no-such-host.invalid", 80);
  name.set(std::make_shared<address_list>(1, address_list::value_type(make_address("10.0.0.1"), 80)), {});
  name.look_up();
  REQUIRE(name.get());
  CHECK(name.get()->front().address() == make_address("10.0.0.1"));
  CHECK_FALSE(name.failure().empty());
}

TEST_CASE("a resolver ends while lookups run, and names outlive it") {
  std::vector<std::shared_ptr<const host_addresses>> held;
  for (int round = 0; round < 20; ++round) {
    resolver names;
    for (int i = 0; i < 8; ++i) held.push_back(names.follow("localhost", static_cast<std::uint16_t>(1 + i)));
  }
  for (const auto& name : held) CHECK((!name->get() || !name->get()->empty()));
}

}  // namespace weir::gateway::upstream
