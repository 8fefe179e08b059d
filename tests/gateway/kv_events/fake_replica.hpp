// A replica's side of the KV-event wire on the loopback, and a sink that writes down what it is called with.
// Waits end with the condition that they wait for.
#pragma once

#include "gateway/kv_events/subscriber.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>
#include <zmq.hpp>

namespace weir::gateway::kv_events::testing {

namespace index = prefix_index;
using json = nlohmann::json;
using std::chrono::milliseconds;

inline constexpr milliseconds k_patience{20'000};
inline constexpr std::uint64_t k_end = ~std::uint64_t{0};

inline std::string big_endian(std::uint64_t value) {
  std::string out;
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
  return out;
}

inline std::string batch_of(std::uint64_t mark) {
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
inline void join(publisher& from, recorder& sink) {
  REQUIRE(becomes([&] {
    from.send({"", big_endian(0), batch_of(0)});
    return sink.count("live 0") > 0;
  }));
}

inline source_options options_of(const publisher& from) {
  return {.name = "replica", .endpoint = from.endpoint, .replay_endpoint = from.replay_endpoint};
}

}  // namespace weir::gateway::kv_events::testing
