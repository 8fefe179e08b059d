// The transport on real sockets of the loopback. Waits end with the condition that they wait for; the limits
// of a replay are shortened where a test needs their end.
#include "gateway/kv_events/subscriber.hpp"

#include <fmt/format.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>
#include <zmq.hpp>

namespace weir::gateway::kv_events {
namespace {

namespace index = prefix_index;
using json = nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds k_patience{20'000};
constexpr std::uint64_t k_end = ~std::uint64_t{0};

std::string big_endian(std::uint64_t value) {
  std::string out;
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
  return out;
}

std::string batch_of(std::uint64_t mark) {
  const json event = {{"type", "BlockRemoved"}, {"block_hashes", {mark}}};
  const auto packed = json::to_msgpack(json::array({1.0, json::array({event}), nullptr}));
  return {packed.begin(), packed.end()};
}

// A replica's side: publishes what it is told and answers for what it still has.
class publisher {
 public:
  explicit publisher(const std::string& at = "tcp://127.0.0.1:*",
                     const std::string& replay_at = "tcp://127.0.0.1:*")
      : live_(context_, zmq::socket_type::pub), replay_(context_, zmq::socket_type::router) {
    for (auto* socket : {&live_, &replay_}) socket->set(zmq::sockopt::linger, 0);
    live_.bind(at);
    replay_.bind(replay_at);
    endpoint = live_.get(zmq::sockopt::last_endpoint);
    replay_endpoint = replay_.get(zmq::sockopt::last_endpoint);
    answers_ = std::jthread([this](const std::stop_token& stop) { answer(stop); });
  }

  void publish(std::uint64_t sequence, bool is_lost = false) {
    {
      const std::lock_guard lock(mutex_);
      kept_.emplace_back(sequence, batch_of(sequence));
    }
    if (!is_lost) send({"", big_endian(sequence), batch_of(sequence)});
  }

  void forget() {
    const std::lock_guard lock(mutex_);
    kept_.clear();
  }

  void send(const std::vector<std::string>& frames) {
    for (std::size_t i = 0; i < frames.size(); ++i)
      live_.send(zmq::buffer(frames[i]),
                 i + 1 < frames.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }

  int replays() const { return replays_; }

  std::string endpoint;
  std::string replay_endpoint;

 private:
  void answer(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::array<zmq::pollitem_t, 1> items{{{replay_.handle(), 0, ZMQ_POLLIN, 0}}};
      zmq::poll(items, milliseconds(5));
      if ((items[0].revents & ZMQ_POLLIN) == 0) continue;
      std::array<zmq::message_t, 3> frames;
      for (auto& frame : frames) (void)replay_.recv(frame);
      std::uint64_t from = 0;
      for (int i = 0; i < 8; ++i) from = (from << 8) | static_cast<const unsigned char*>(frames[2].data())[i];
      ++replays_;
      const std::lock_guard lock(mutex_);
      for (const auto& [sequence, payload] : kept_)
        if (sequence >= from) reply(frames[0], sequence, payload);
      reply(frames[0], k_end, "");
    }
  }

  void reply(const zmq::message_t& to, std::uint64_t sequence, const std::string& payload) {
    replay_.send(zmq::buffer(to.data(), to.size()), zmq::send_flags::sndmore);
    replay_.send(zmq::message_t(), zmq::send_flags::sndmore);
    replay_.send(zmq::buffer(big_endian(sequence)), zmq::send_flags::sndmore);
    replay_.send(zmq::buffer(payload), zmq::send_flags::none);
  }

  zmq::context_t context_;
  zmq::socket_t live_;
  zmq::socket_t replay_;
  std::mutex mutex_;
  std::vector<std::pair<std::uint64_t, std::string>> kept_;
  std::atomic<int> replays_{0};
  std::jthread answers_;
};

// Writes down what it is called with, and asks for a replay where numbers are missing, as the index does.
class recorder final : public stream_sink {
 public:
  index::event_step reconnected() override {
    add("reconnected");
    return {index::event_step::kind::replay, next_};
  }
  index::event_step received(std::uint64_t sequence, const index::kv_batch& batch) override {
    if (sequence < next_) next_ = sequence;
    add(fmt::format("live {}", mark(batch)));
    if (refuses) return {index::event_step::kind::refused};
    if (sequence > next_) return {index::event_step::kind::replay, next_};
    next_ = sequence + 1;
    return {};
  }
  index::event_step replayed(std::uint64_t sequence, const index::kv_batch& batch) override {
    add(fmt::format("replayed {}", mark(batch)));
    next_ = sequence + 1;
    return {};
  }
  index::event_step replay_ended() override {
    add("end");
    return {asks_again ? index::event_step::kind::replay : index::event_step::kind::go_on, next_};
  }
  void reset() override { add("reset"); }
  std::string_view refusal() const override { return "blocks of 7 tokens"; }

  // How often it was called so.
  std::ptrdiff_t count(const std::string& call) {
    const std::lock_guard lock(mutex_);
    return std::count(calls_.begin(), calls_.end(), call);
  }
  bool wait(const std::string& call, std::ptrdiff_t times = 1) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, k_patience,
                             [&] { return std::count(calls_.begin(), calls_.end(), call) >= times; });
  }
  std::string text() {
    const std::lock_guard lock(mutex_);
    std::string out;
    for (const auto& call : calls_) out += call + "; ";
    return out;
  }

  std::atomic<bool> refuses{false};
  std::atomic<bool> asks_again{false};

 private:
  static std::uint64_t mark(const index::kv_batch& batch) {
    return std::get<index::kv_removed>(batch.events.at(0)).hashes.at(0);
  }
  void add(std::string call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
    changed_.notify_all();
  }

  std::uint64_t next_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> calls_;
};

template <class Condition>
bool becomes(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + k_patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

// Publishes until the subscription is known to work: ZeroMQ drops what is sent before it does.
void join(publisher& from, recorder& sink) {
  REQUIRE(becomes([&] {
    from.send({"", big_endian(0), batch_of(0)});
    return sink.count("live 0") > 0;
  }));
}

source_options options_of(const publisher& from) {
  return {.name = "replica", .endpoint = from.endpoint, .replay_endpoint = from.replay_endpoint};
}

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
