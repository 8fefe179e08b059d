#include "loadtest/mock/kv_publisher.hpp"

#include <array>
#include <chrono>
#include <vector>

namespace weir::loadtest::mock {

namespace {

constexpr std::chrono::milliseconds k_stop_period{50};
constexpr int k_published_max = 100'000;  // waiting for a slow subscriber; vLLM's default
constexpr std::size_t k_sequence_bytes = 8;
constexpr std::uint64_t k_end_of_replay = ~std::uint64_t{0};

std::string big_endian(std::uint64_t value) {
  std::string out;
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
  return out;
}

}  // namespace

kv_publisher::kv_publisher(const kv_publisher_options& options)
    : options_(options),
      live_(context_, zmq::socket_type::pub),
      replay_(context_, zmq::socket_type::router),
      random_(options.seed) {
  live_.set(zmq::sockopt::linger, 0);
  live_.set(zmq::sockopt::sndhwm, k_published_max);
  live_.bind(options_.endpoint);
  if (options_.replay_endpoint.empty()) return;
  replay_.set(zmq::sockopt::linger, 0);
  replay_.set(zmq::sockopt::sndhwm, static_cast<int>(options_.kept_max + 1));
  replay_.bind(options_.replay_endpoint);
  replay_endpoint_ = replay_.get(zmq::sockopt::last_endpoint);
  replays_ = std::jthread([this](const std::stop_token& stop) { answer_replays(stop); });
}

kv_publisher::~kv_publisher() {
  replays_.request_stop();
  if (replays_.joinable()) replays_.join();
}

std::string kv_publisher::endpoint() const {
  return live_.get(zmq::sockopt::last_endpoint);
}

void kv_publisher::publish(std::string payload) {
  const std::lock_guard lock(mutex_);
  const auto sequence = next_sequence_++;
  const bool is_dropped = options_.drop_share > std::uniform_real_distribution<double>()(random_);
  if (!is_dropped) {
    live_.send(zmq::message_t(), zmq::send_flags::sndmore);
    live_.send(zmq::buffer(big_endian(sequence)), zmq::send_flags::sndmore);
    live_.send(zmq::buffer(payload), zmq::send_flags::none);
  }
  kept_bytes_ += payload.size();
  kept_.push_back({sequence, std::move(payload)});
  while (kept_.size() > options_.kept_max || kept_bytes_ > k_kept_bytes_max) {
    kept_bytes_ -= kept_.front().payload.size();
    kept_.pop_front();
  }
}

void kv_publisher::answer_replays(const std::stop_token& stop) {
  std::array<zmq::pollitem_t, 1> items{{{replay_.handle(), 0, ZMQ_POLLIN, 0}}};
  while (!stop.stop_requested()) {
    zmq::poll(items, k_stop_period);
    if ((items[0].revents & ZMQ_POLLIN) != 0) answer_one();
  }
}

// A request is [client, empty, first sequence]; any other is let pass.
void kv_publisher::answer_one() {
  std::vector<zmq::message_t> frames;
  for (bool more = true; more;) {
    auto& frame = frames.emplace_back();
    if (!replay_.recv(frame)) return;
    more = frame.more();
  }
  if (frames.size() != 3 || frames[2].size() != k_sequence_bytes) return;
  std::uint64_t from = 0;
  for (std::size_t i = 0; i < k_sequence_bytes; ++i)
    from = (from << 8) | static_cast<const unsigned char*>(frames[2].data())[i];
  const std::lock_guard lock(mutex_);
  for (const auto& [sequence, payload] : kept_)
    if (sequence >= from) reply(frames[0], sequence, payload);
  reply(frames[0], k_end_of_replay, {});
}

void kv_publisher::reply(const zmq::message_t& to, std::uint64_t sequence, const std::string& payload) {
  replay_.send(zmq::buffer(to.data(), to.size()), zmq::send_flags::sndmore);
  replay_.send(zmq::message_t(), zmq::send_flags::sndmore);
  replay_.send(zmq::buffer(big_endian(sequence)), zmq::send_flags::sndmore);
  replay_.send(zmq::buffer(payload), zmq::send_flags::none);
}

}  // namespace weir::loadtest::mock
