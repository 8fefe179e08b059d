// The transport on real sockets of the loopback; the limits of a replay are shortened where a test needs
// their end.
#include <catch2/catch.hpp>

#include "tests/gateway/kv_events/fake_replica.hpp"

namespace weir::gateway::kv_events {
namespace {

using namespace testing;

TEST_CASE("a gap is replayed, with what is live meanwhile") {
  publisher replica;
  const auto sink = std::make_shared<recorder>();
  subscriber all;
  const auto source = all.add(options_of(replica), sink);
  REQUIRE(source);
  REQUIRE(sink->wait("end"));
  replica.publish(0, true);
  join(replica, *sink);
  replica.publish(1);
  REQUIRE(sink->wait("live 1"));
  replica.publish(2, true);
  replica.publish(3, true);
  replica.publish(4);
  REQUIRE(sink->wait("end", 2));
  INFO(sink->text());
  CHECK(sink->text().ends_with("live 1; live 4; replayed 2; replayed 3; replayed 4; end; "));
  CHECK(source->status->last_sequence == 4);
  CHECK(source->status->replayed == 3);
  CHECK(source->status->replays == 2);
  CHECK(source->status->replays_failed == 0);
}

TEST_CASE("who joins late replays from the start") {
  publisher replica;
  for (std::uint64_t n = 0; n < 5; ++n) replica.publish(n);
  const auto sink = std::make_shared<recorder>();
  subscriber all;
  REQUIRE(all.add(options_of(replica), sink));
  REQUIRE(sink->wait("end"));
  CHECK(sink->text() == "reconnected; replayed 0; replayed 1; replayed 2; replayed 3; replayed 4; end; ");
}

TEST_CASE("a publisher that restarts at its place is found again") {
  std::optional<publisher> replica(std::in_place);
  const auto options = options_of(*replica);
  const auto sink = std::make_shared<recorder>();
  subscriber all({}, {.reconnect_longest = milliseconds(200), .replay_idle = milliseconds(300)});
  const auto source = all.add(options, sink);
  REQUIRE(source);
  join(*replica, *sink);
  replica.reset();
  REQUIRE(becomes([&] { return !source->status->is_connected; }));
  REQUIRE(becomes([&] {
    try {
      replica.emplace(options.endpoint, options.replay_endpoint);
    } catch (const zmq::error_t&) {
    }
    return replica.has_value();
  }));
  REQUIRE(sink->wait("reconnected", 2));
  const auto before = sink->count("live 0");
  REQUIRE(becomes([&] {
    replica->send({"", big_endian(0), batch_of(0)});
    return sink->count("live 0") > before;
  }));
  CHECK(source->status->is_connected);
  CHECK(source->status->connects == 2);
}

TEST_CASE("messages that are no batches are counted and leave the stream whole") {
  publisher replica;
  const auto sink = std::make_shared<recorder>();
  std::mutex mutex;
  std::vector<std::string> notices;
  subscriber all([&](std::string_view source, std::string_view what) {
    const std::lock_guard lock(mutex);
    notices.push_back(fmt::format("{}: {}", source, what));
  });
  const auto source = all.add(options_of(replica), sink);
  REQUIRE(source);
  join(replica, *sink);
  replica.send({""});
  replica.send({"", big_endian(1)});
  replica.send({"", big_endian(1), batch_of(1), "more"});
  replica.send({"", "1", batch_of(1)});
  replica.send({"", big_endian(1), "\xc1"});
  replica.send({"", big_endian(1), batch_of(1).substr(0, 12)});
  replica.send({"", big_endian(k_end), ""});
  replica.publish(1);
  REQUIRE(sink->wait("live 1"));
  CHECK(source->status->misframed == 4);
  CHECK(source->status->undecodable == 2);
  CHECK(source->status->is_connected);
  const std::lock_guard lock(mutex);
  CHECK(notices.size() == 2);
  CHECK(notices.at(0).starts_with("replica: "));
}

TEST_CASE("a message beyond the limit ends its connection, and the next one serves") {
  publisher replica;
  const auto sink = std::make_shared<recorder>();
  subscriber all;
  const auto source = all.add(options_of(replica), sink);
  REQUIRE(source);
  join(replica, *sink);
  replica.send({"", big_endian(1), std::string((16 << 20) + 1, 'x')});
  REQUIRE(sink->wait("reconnected", 2));
  const auto before = sink->count("live 0");
  REQUIRE(becomes([&] {
    replica.send({"", big_endian(0), batch_of(0)});
    return sink->count("live 0") > before;
  }));
}

TEST_CASE("a place where something else answers is tried again until it is a publisher") {
  zmq::context_t context;
  zmq::socket_t other(context, zmq::socket_type::stream);
  other.set(zmq::sockopt::linger, 0);
  other.bind("tcp://127.0.0.1:*");
  const auto endpoint = other.get(zmq::sockopt::last_endpoint);
  const auto sink = std::make_shared<recorder>();
  subscriber all({}, {.reconnect_longest = milliseconds(200)});
  REQUIRE(all.add({.name = "replica", .endpoint = endpoint}, sink));
  for (int peers = 0; peers < 2;) {
    zmq::message_t peer;
    zmq::message_t bytes;
    REQUIRE(other.recv(peer));
    REQUIRE(other.recv(bytes));
    if (bytes.size() == 0) continue;
    other.send(peer, zmq::send_flags::sndmore);
    other.send(zmq::str_buffer("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"),
               zmq::send_flags::none);
    ++peers;
  }
  other.close();
  std::optional<publisher> replica;
  REQUIRE(becomes([&] {
    try {
      replica.emplace(endpoint);
    } catch (const zmq::error_t&) {
    }
    return replica.has_value();
  }));
  join(*replica, *sink);
}

TEST_CASE("a replay that nobody answers ends, and none is tried while it cools") {
  publisher replica;
  const auto sink = std::make_shared<recorder>();
  auto options = options_of(replica);
  options.replay_endpoint = "tcp://127.0.0.1:1";
  subscriber all({}, {.replay_idle = milliseconds(100)});
  const auto source = all.add(options, sink);
  REQUIRE(source);
  REQUIRE(sink->wait("end"));
  CHECK(source->status->replays == 1);
  CHECK(source->status->replays_failed == 1);
  CHECK_FALSE(source->status->is_replaying);
  join(replica, *sink);
  replica.publish(7);
  REQUIRE(sink->wait("end", 2));
  CHECK(source->status->replays == 1);
  CHECK(source->status->replays_failed == 2);
}

TEST_CASE("a source without a replay endpoint declines, also who asks for ever") {
  publisher replica;
  const auto sink = std::make_shared<recorder>();
  sink->asks_again = true;
  auto options = options_of(replica);
  options.replay_endpoint.clear();
  subscriber all;
  const auto source = all.add(options, sink);
  REQUIRE(source);
  join(replica, *sink);
  CHECK(source->status->replays == 0);
  CHECK(sink->count("end") >= 1);
}

TEST_CASE("a replay is bounded as a whole though its peer keeps talking") {
  publisher replica;
  zmq::context_t context;
  zmq::socket_t talker(context, zmq::socket_type::router);
  talker.set(zmq::sockopt::linger, 0);
  talker.bind("tcp://127.0.0.1:*");
  auto options = options_of(replica);
  options.replay_endpoint = talker.get(zmq::sockopt::last_endpoint);
  const auto sink = std::make_shared<recorder>();
  subscriber all({}, {.replay_total = milliseconds(400)});
  const auto source = all.add(options, sink);
  REQUIRE(source);
  std::array<zmq::message_t, 3> asked;
  for (auto& frame : asked) REQUIRE(talker.recv(frame));
  REQUIRE(becomes([&] {
    talker.send(zmq::buffer(asked[0].data(), asked[0].size()), zmq::send_flags::sndmore);
    talker.send(zmq::message_t(), zmq::send_flags::sndmore);
    talker.send(zmq::buffer(big_endian(3)), zmq::send_flags::sndmore);
    talker.send(zmq::buffer(batch_of(3)), zmq::send_flags::none);
    return sink->count("end") > 0;
  }));
  CHECK(sink->count("replayed 3") > 1);
  CHECK(source->status->replays_failed == 1);
}

TEST_CASE("sources come and go, and a refused one is left alone") {
  publisher first;
  publisher second;
  const auto one = std::make_shared<recorder>();
  const auto two = std::make_shared<recorder>();
  two->refuses = true;
  subscriber all;
  const auto a = all.add(options_of(first), one);
  const auto b = all.add(options_of(second), two);
  REQUIRE(a);
  REQUIRE(b);
  join(first, *one);
  join(second, *two);
  REQUIRE(becomes([&] { return b->status->is_refused.load(); }));
  all.reset(a->id);
  CHECK(one->count("reset") == 1);
  all.remove(a->id);
  all.remove(a->id);
  CHECK(one.use_count() == 1);
  CHECK(two.use_count() == 2);
  const auto again = all.add(options_of(first), one);
  REQUIRE(again);
  REQUIRE(one->wait("reconnected", 2));
}

TEST_CASE("a topic is a prefix of what is heard") {
  publisher replica;
  const auto sink = std::make_shared<recorder>();
  auto options = options_of(replica);
  options.topic = "kv@";
  subscriber all;
  REQUIRE(all.add(options, sink));
  REQUIRE(becomes([&] {
    replica.send({"other", big_endian(5), batch_of(5)});
    replica.send({"kv@10.0.0.1@model", big_endian(0), batch_of(0)});
    return sink->count("live 0") > 0;
  }));
  CHECK(sink->count("live 5") == 0);
}

TEST_CASE("an endpoint is checked before it is used") {
  struct row {
    const char* endpoint;
    std::int32_t rank;
    const char* expected;  // empty: an error
  };
  const row rows[] = {
      {"tcp://10.0.0.1:5557", 0, "tcp://10.0.0.1:5557"},
      {"tcp://[::1]:5557", 3, "tcp://[::1]:5560"},
      {"tcp://host:65535", 1, ""},
      {"tcp://host:65536", 0, ""},
      {"tcp://host:0", 0, ""},
      {"tcp://host:", 0, ""},
      {"tcp://host", 0, ""},
      {"tcp://:80", 0, ""},
      {"tcp://host:80x", 0, ""},
      {"tcp://host:80", -1, ""},
      {"http://host:80", 0, ""},
      {"ipc:///tmp/events", 0, "ipc:///tmp/events"},
      {"ipc:///tmp/events", 1, ""},
      {"", 0, ""},
  };
  for (const auto& [endpoint, rank, expected] : rows) {
    INFO(endpoint << " rank " << rank);
    CHECK(rank_endpoint(endpoint, rank).value_or("") == expected);
  }
  subscriber all;
  const auto sink = std::make_shared<recorder>();
  CHECK_FALSE(all.add({.endpoint = "tcp://host"}, sink));
  CHECK_FALSE(all.add({.endpoint = "tcp://*:5557"}, sink));
  CHECK_FALSE(all.add({.endpoint = "tcp://127.0.0.1:5557", .replay_endpoint = "nowhere"}, sink));
}

TEST_CASE("stopping does not wait for peers") {
  const auto sink = std::make_shared<recorder>();
  publisher replica;
  std::optional<subscriber> all(std::in_place);
  auto silent = options_of(replica);
  silent.replay_endpoint = "tcp://127.0.0.1:1";
  REQUIRE(all->add(silent, sink));
  REQUIRE(all->add({.endpoint = "tcp://127.0.0.1:1"}, std::make_shared<recorder>()));
  REQUIRE(sink->wait("reconnected"));
  const auto start = std::chrono::steady_clock::now();
  all.reset();
  CHECK(std::chrono::steady_clock::now() - start < milliseconds(1'000));
  CHECK(sink.use_count() == 1);
}

}  // namespace
}  // namespace weir::gateway::kv_events
