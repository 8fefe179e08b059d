// Batches of KV events onto ZeroMQ as engines do it: PUB with [topic, sequence, payload], and a ROUTER that
// answers for the last ones. publish() on any thread, one at a time; the replays run on a thread of their
// own.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <zmq.hpp>

#include "loadtest/mock/options.hpp"

namespace weir::loadtest::mock {

inline constexpr std::size_t k_kept_bytes_max = 256 << 20;  // long prompts make batches of megabytes

class kv_publisher final {
 public:
  // Throws zmq::error_t where an endpoint cannot be taken.
  explicit kv_publisher(const kv_publisher_options& options);
  ~kv_publisher();
  kv_publisher(const kv_publisher&) = delete;
  kv_publisher& operator=(const kv_publisher&) = delete;

  void publish(std::string payload);

  // As they were bound.
  std::string endpoint() const;
  std::string replay_endpoint() const { return replay_endpoint_; }

 private:
  struct kept {
    std::uint64_t sequence = 0;
    std::string payload;
  };

  void answer_replays(const std::stop_token& stop);
  void answer_one();
  void reply(const zmq::message_t& to, std::uint64_t sequence, const std::string& payload);

  kv_publisher_options options_;
  zmq::context_t context_;
  zmq::socket_t live_;
  zmq::socket_t replay_;
  std::string replay_endpoint_;
  std::mutex mutex_;       // of what follows
  std::deque<kept> kept_;  // at most options_.kept_max, and k_kept_bytes_max in all
  std::size_t kept_bytes_ = 0;
  std::uint64_t next_sequence_ = 0;
  std::mt19937_64 random_;
  std::jthread replays_;
};

}  // namespace weir::loadtest::mock
