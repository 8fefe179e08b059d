#include "gateway/kv_events/publisher.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <zmq.hpp>

#include "gateway/kv_events/batch_writer.hpp"
#include "gateway/kv_events/sequence_frame.hpp"

namespace weir::gateway::kv_events {

namespace {

using engine::cache::cache_event;

constexpr int k_sent_max = 1'000;   // batches waiting for one slow subscriber
constexpr int k_asked_max = 64;     // requests for replays waiting
constexpr int k_asked_at_once = 8;  // then the stream has its turn
constexpr std::int64_t k_request_bytes_max = 1 << 10;

// No process writes a batch in each microsecond.
std::uint64_t microseconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Shares the bytes, which libzmq counts: replays to many subscribers take no memory of their own.
zmq::message_t share(zmq::message_t& bytes) {
  zmq::message_t out;
  out.copy(bytes);
  return out;
}

}  // namespace

struct publisher::impl {
  explicit impl(const publisher_options& o);
  ~impl();

  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_fd, &one, sizeof one);
  }
  void run(const std::stop_token& stop);
  void send_waiting();
  void send(std::string_view text);
  void answer_replays();
  bool answer_one();
  void reply(const zmq::message_t& to, std::uint64_t sequence, zmq::message_t bytes);

  const publisher_options options;
  zmq::context_t context{1};
  zmq::socket_t live{context, zmq::socket_type::pub};  // the thread's, as all down to next_sequence
  zmq::socket_t replay{context, zmq::socket_type::router};
  std::deque<std::pair<std::uint64_t, zmq::message_t>> kept;
  std::size_t kept_bytes = 0;
  std::uint64_t next_sequence;
  std::string endpoint;
  std::string replay_endpoint;
  std::atomic<std::uint64_t> batches{0};
  std::atomic<std::uint64_t> dropped{0};
  std::atomic<std::uint64_t> replays{0};
  std::mutex mutex;
  std::vector<cache_event> waiting;  // under the mutex
  bool is_lost = false;              // likewise: what subscribers know must be taken back
  int wake_fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  std::jthread thread;
};

publisher::impl::impl(const publisher_options& o)
    : options(o), next_sequence(o.first_sequence.value_or(microseconds_since_1970())) {
  if (wake_fd < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  for (auto* socket : {&live, &replay}) {
    socket->set(zmq::sockopt::linger, 0);
    // An IPv4 address would be reported as a mapped one.
    socket->set(zmq::sockopt::ipv6, options.endpoint.find('[') != std::string::npos);
  }
  live.set(zmq::sockopt::sndhwm, k_sent_max);
  live.bind(options.endpoint);
  endpoint = live.get(zmq::sockopt::last_endpoint);
  if (!options.replay_endpoint.empty()) {
    replay.set(zmq::sockopt::sndhwm, static_cast<int>(options.kept_batches_max + 1));
    replay.set(zmq::sockopt::rcvhwm, k_asked_max);
    replay.set(zmq::sockopt::maxmsgsize, k_request_bytes_max);
    replay.bind(options.replay_endpoint);
    replay_endpoint = replay.get(zmq::sockopt::last_endpoint);
  }
  send(write_cleared_batch(seconds_since_1970()));
  thread = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

publisher::impl::~impl() {
  thread.request_stop();
  wake();
  if (thread.joinable()) thread.join();
  if (wake_fd >= 0) ::close(wake_fd);
}

void publisher::impl::run(const std::stop_token& stop) {
  std::array<zmq::pollitem_t, 2> items{
      {{nullptr, wake_fd, ZMQ_POLLIN, 0}, {replay.handle(), 0, ZMQ_POLLIN, 0}}};
  const int sockets = replay_endpoint.empty() ? 1 : 2;
  while (!stop.stop_requested()) {
    zmq_poll(items.data(), sockets, -1);
    if ((items[0].revents & ZMQ_POLLIN) != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto was_read = ::read(wake_fd, &count, sizeof count);
    }
    try {
      send_waiting();
      if (sockets > 1) answer_replays();
    } catch (const zmq::error_t&) {
      // One message is lost: its subscriber misses its number, or its replay's end, and asks again.
    }
  }
}

void publisher::impl::send_waiting() {
  std::vector<cache_event> events;
  bool lost = false;
  {
    const std::lock_guard lock(mutex);
    events.swap(waiting);
    lost = std::exchange(is_lost, false);
  }
  if (lost) send(write_cleared_batch(seconds_since_1970()));
  for (std::span<const cache_event> left = events; !left.empty();) {
    const auto now = left.first(batch_size(left));
    send(write_batch(now, seconds_since_1970()));
    left = left.subspan(now.size());
  }
}

// Kept before it is sent, so that whoever misses it can ask for it.
void publisher::impl::send(std::string_view text) {
  const auto sequence = next_sequence++;
  zmq::message_t bytes(text.data(), text.size());
  kept_bytes += bytes.size();
  kept.emplace_back(sequence, share(bytes));
  while (!kept.empty() && (kept.size() > options.kept_batches_max || kept_bytes > options.kept_bytes_max)) {
    kept_bytes -= kept.front().second.size();
    kept.pop_front();
  }
  batches.fetch_add(1, std::memory_order_relaxed);
  const auto number = to_big_endian(sequence);
  live.send(zmq::message_t(), zmq::send_flags::sndmore | zmq::send_flags::dontwait);
  live.send(zmq::buffer(number), zmq::send_flags::sndmore | zmq::send_flags::dontwait);
  live.send(std::move(bytes), zmq::send_flags::dontwait);
}

void publisher::impl::answer_replays() {
  for (int n = 0; n < k_asked_at_once; ++n) {
    if (!answer_one()) return;
  }
}

// A request is [client, empty, first sequence]; any other is let pass. False: none waits.
bool publisher::impl::answer_one() {
  std::array<zmq::message_t, 3> frames;
  std::size_t count = 0;
  for (bool more = true; more; ++count) {
    zmq::message_t frame;
    if (!replay.recv(frame, zmq::recv_flags::dontwait)) return false;
    more = frame.more();
    if (count < frames.size()) frames[count] = std::move(frame);
  }
  if (count != frames.size() || frames[2].size() != k_sequence_bytes) return true;
  replays.fetch_add(1, std::memory_order_relaxed);
  const auto from = from_big_endian(frames[2]);
  for (auto& [sequence, bytes] : kept) {
    if (sequence >= from) reply(frames[0], sequence, share(bytes));
  }
  reply(frames[0], k_end_of_replay, {});
  return true;
}

void publisher::impl::reply(const zmq::message_t& to, std::uint64_t sequence, zmq::message_t bytes) {
  const auto number = to_big_endian(sequence);
  constexpr auto k_more = zmq::send_flags::sndmore | zmq::send_flags::dontwait;
  replay.send(zmq::buffer(to.data(), to.size()), k_more);
  replay.send(zmq::message_t(), k_more);
  replay.send(zmq::buffer(number), k_more);
  replay.send(std::move(bytes), zmq::send_flags::dontwait);
}

publisher::publisher(std::unique_ptr<impl> made) : impl_(std::move(made)) {}

publisher::~publisher() = default;

std::expected<std::shared_ptr<publisher>, std::string> publisher::open(const publisher_options& options) {
  try {
    return std::shared_ptr<publisher>(new publisher(std::make_unique<impl>(options)));
  } catch (const zmq::error_t& e) {
    return std::unexpected(fmt::format("KV events cannot be published at {}{}{}: {}", options.endpoint,
                                       options.replay_endpoint.empty() ? "" : " and ",
                                       options.replay_endpoint, e.what()));
  }
}

void publisher::publish(const std::vector<cache_event>& events) {
  {
    const std::lock_guard lock(impl_->mutex);
    auto& waiting = impl_->waiting;
    if (waiting.size() + events.size() > impl_->options.waiting_events_max) {
      impl_->dropped.fetch_add(waiting.size() + events.size(), std::memory_order_relaxed);
      waiting.clear();
      impl_->is_lost = true;
    } else {
      waiting.insert(waiting.end(), events.begin(), events.end());
    }
  }
  impl_->wake();
}

const std::string& publisher::endpoint() const noexcept {
  return impl_->endpoint;
}

const std::string& publisher::replay_endpoint() const noexcept {
  return impl_->replay_endpoint;
}

publisher_counters publisher::counters() const noexcept {
  return {.batches = impl_->batches.load(std::memory_order_relaxed),
          .dropped = impl_->dropped.load(std::memory_order_relaxed),
          .replays = impl_->replays.load(std::memory_order_relaxed)};
}

}  // namespace weir::gateway::kv_events
