// One source: its subscription, the watch on its connection, and its replay when one runs. Knows ZeroMQ and
// frames; what sequence numbers mean is the sink's.
//
//   live message    [topic, sequence: 8 bytes big-endian, payload]
//   replay request  [empty, first sequence wanted: 8 bytes big-endian]
//   replay answers  [empty, sequence, payload] each, then [empty, eight 0xFF, empty]
//
// One thread, the subscriber's; nothing here blocks.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "gateway/kv_events/source_options.hpp"
#include "gateway/kv_events/stream_sink.hpp"

namespace weir::gateway::kv_events {

using clock = std::chrono::steady_clock;

class event_stream final {
 public:
  struct shared {  // by all streams; outlives them
    zmq::context_t context{1};
    subscriber_limits limits;
    notice notify;
    std::size_t replays_running = 0;
    std::uint64_t monitors = 0;  // made so far, for their names
  };

  // Connects. Throws zmq::error_t where an endpoint is none that ZeroMQ takes.
  event_stream(shared& all, source_options options, std::shared_ptr<stream_sink> sink,
               std::shared_ptr<source_status> status);
  ~event_stream();
  event_stream(const event_stream&) = delete;
  event_stream& operator=(const event_stream&) = delete;

  void append_poll_items(std::vector<zmq::pollitem_t>& items);

  // Does what is ready and what is due, a bounded amount of it.
  void work(clock::time_point now);

  // When work() has something to do though no socket is ready.
  clock::time_point due() const noexcept;

  void reset() { sink_->reset(); }

 private:
  struct message {
    std::uint64_t sequence = 0;
    zmq::message_t payload;
  };
  enum class receipt : std::uint8_t { nothing, misframed, whole };

  zmq::socket_t socket(zmq::socket_type type, int messages_max) const;
  void connect_live();
  void close_live();
  void take_connection_event(std::uint16_t event, bool may_drain, clock::time_point now);
  void read_connection(clock::time_point now, bool may_drain);
  void read_live(clock::time_point now);
  void drain_live(clock::time_point now);
  void read_replay(clock::time_point now);
  receipt receive(zmq::socket_t& from, message& out);
  void take_live(const message& one, clock::time_point now);
  void take_replayed(const message& one, clock::time_point now);
  std::optional<prefix_index::kv_batch> decode(const zmq::message_t& payload, clock::time_point now);

  void act(prefix_index::event_step step, clock::time_point now);
  bool can_replay(clock::time_point now) const;
  void start_replay(clock::time_point now);
  void stop_replay();
  void replay_failed(clock::time_point now);
  void refuse(clock::time_point now);
  void tell(clock::time_point now, const char* kind, const std::string& what);

  shared& all_;
  source_options options_;
  std::shared_ptr<stream_sink> sink_;
  std::shared_ptr<source_status> status_;
  zmq::socket_t live_;
  zmq::socket_t connection_;                                // what becomes of live_'s connection
  clock::time_point revive_at_ = clock::time_point::max();  // unless ZeroMQ tries again by itself
  std::chrono::milliseconds revive_pause_;
  std::optional<zmq::socket_t> replay_;
  std::optional<std::uint64_t> wanted_from_;  // a replay wanted or running
  clock::time_point replay_not_before_;
  clock::time_point replay_ends_;
  clock::time_point replay_idle_ends_;
  clock::time_point cools_until_;
  bool is_refused_ = false;
  std::map<std::string, clock::time_point> told_;  // kinds are few and named in the source
};

}  // namespace weir::gateway::kv_events
