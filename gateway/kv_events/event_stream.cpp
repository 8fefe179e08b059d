#include "gateway/kv_events/event_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "gateway/kv_events/decoder.hpp"
#include "gateway/kv_events/sequence_frame.hpp"

namespace weir::gateway::kv_events {

namespace {

constexpr int k_messages_at_once = 64;  // of one socket, then others have their turn
constexpr int k_declines_max = 8;       // of replays asked for in one turn
constexpr auto k_notice_spacing = std::chrono::minutes(1);
constexpr int k_heartbeat_ms = 10'000;  // finds a peer that vanished without a word
constexpr int k_heartbeat_timeout_ms = 30'000;
constexpr int k_connect_timeout_ms = 5'000;

// A peer that breaks the protocol, and one that sends too much at once, is never tried again by ZeroMQ; in
// all other cases a retry is reported.
constexpr int k_failed_handshakes = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                                    ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
constexpr int k_connection_events =
    ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_DISCONNECTED | k_failed_handshakes;

// Endpoints as the rank has them; checked where the source was added.
std::string at_rank(const std::string& endpoint, std::int32_t rank) {
  return rank_endpoint(endpoint, rank).value_or(endpoint);
}

}  // namespace

event_stream::event_stream(shared& all, source_options options, std::shared_ptr<stream_sink> sink,
                           std::shared_ptr<source_status> status)
    : all_(all),
      options_(std::move(options)),
      sink_(std::move(sink)),
      status_(std::move(status)),
      revive_pause_(all.limits.reconnect_first) {
  connect_live();
}

event_stream::~event_stream() {
  stop_replay();
  close_live();
}

zmq::socket_t event_stream::socket(zmq::socket_type type, int messages_max) const {
  zmq::socket_t out(all_.context, type);
  out.set(zmq::sockopt::linger, 0);
  out.set(zmq::sockopt::rcvhwm, messages_max);
  out.set(zmq::sockopt::sndhwm, 1);
  out.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(k_payload_bytes_max));
  out.set(zmq::sockopt::reconnect_ivl, static_cast<int>(all_.limits.reconnect_first.count()));
  out.set(zmq::sockopt::reconnect_ivl_max, static_cast<int>(all_.limits.reconnect_longest.count()));
  out.set(zmq::sockopt::connect_timeout, k_connect_timeout_ms);
  out.set(zmq::sockopt::heartbeat_ivl, k_heartbeat_ms);
  out.set(zmq::sockopt::heartbeat_timeout, k_heartbeat_timeout_ms);
  out.set(zmq::sockopt::ipv6, true);
  return out;
}

void event_stream::connect_live() {
  live_ = socket(zmq::socket_type::sub, all_.limits.live_messages_max);
  connection_ = zmq::socket_t(all_.context, zmq::socket_type::pair);
  connection_.set(zmq::sockopt::linger, 0);
  const auto name = fmt::format("inproc://kv-events-{}", ++all_.monitors);
  if (zmq_socket_monitor(live_.handle(), name.c_str(), k_connection_events) != 0) throw zmq::error_t();
  connection_.connect(name);
  live_.set(zmq::sockopt::subscribe, options_.topic);
  live_.connect(at_rank(options_.endpoint, options_.data_parallel_rank));
}

void event_stream::close_live() {
  if (live_) zmq_socket_monitor(live_.handle(), nullptr, 0);
  live_.close();
  connection_.close();
}

void event_stream::append_poll_items(std::vector<zmq::pollitem_t>& items) {
  if (is_refused_) return;
  items.push_back({live_.handle(), 0, ZMQ_POLLIN, 0});
  items.push_back({connection_.handle(), 0, ZMQ_POLLIN, 0});
  if (replay_) items.push_back({replay_->handle(), 0, ZMQ_POLLIN, 0});
}

clock::time_point event_stream::due() const noexcept {
  if (is_refused_) return clock::time_point::max();
  if (!wanted_from_) return revive_at_;
  return replay_ ? std::min({revive_at_, replay_ends_, replay_idle_ends_})
                 : std::min({revive_at_, replay_not_before_, replay_ends_});
}

void event_stream::work(clock::time_point now) {
  if (!is_refused_) read_connection(now, true);
  if (!is_refused_ && now >= revive_at_) {
    revive_at_ = clock::time_point::max();
    close_live();
    connect_live();
  }
  if (!is_refused_ && replay_) read_replay(now);
  if (!is_refused_) read_live(now);
  if (is_refused_ || !wanted_from_) return;
  if (replay_ ? now >= std::min(replay_ends_, replay_idle_ends_) : now >= replay_ends_) {
    tell(now, "replay", "its replay endpoint does not answer in time; lost batches stay lost");
    replay_failed(now);
  } else if (!replay_ && now >= replay_not_before_) {
    start_replay(now);
  }
}

// What came over a connection is read before the next one is reported, and a connection is reported before
// what comes over it: the sink tells a restarted engine by its numbers, so order matters.
void event_stream::read_connection(clock::time_point now, bool may_drain) {
  for (int n = 0; n < k_messages_at_once; ++n) {
    zmq::message_t what;
    if (!connection_.recv(what, zmq::recv_flags::dontwait)) return;
    zmq::message_t address;
    if (what.more() && !connection_.recv(address, zmq::recv_flags::dontwait)) return;
    std::uint16_t event = 0;
    if (what.size() < sizeof event) continue;
    std::copy_n(static_cast<const unsigned char*>(what.data()), sizeof event,
                reinterpret_cast<unsigned char*>(&event));
    take_connection_event(event, may_drain, now);
    if (is_refused_) return;
  }
}

void event_stream::take_connection_event(std::uint16_t event, bool may_drain, clock::time_point now) {
  if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
    status_->is_connected = true;
    ++status_->connects;
    revive_at_ = clock::time_point::max();
    act(sink_->reconnected(), now);
  } else if (event == ZMQ_EVENT_CONNECT_RETRIED) {
    revive_at_ = clock::time_point::max();
  } else {
    status_->is_connected = false;
    revive_at_ = now + revive_pause_;
    revive_pause_ = std::min(2 * revive_pause_, all_.limits.reconnect_longest);
    if (event == ZMQ_EVENT_DISCONNECTED && may_drain) drain_live(now);
  }
}

// Takes a whole message, however many frames it has, and keeps three.
event_stream::receipt event_stream::receive(zmq::socket_t& from, message& out) {
  std::size_t frames = 0;
  std::array<zmq::message_t, 3> kept;
  for (bool more = true; more; ++frames) {
    zmq::message_t frame;
    if (!from.recv(frame, zmq::recv_flags::dontwait)) return receipt::nothing;
    more = frame.more();
    if (frames < kept.size()) kept[frames] = std::move(frame);
  }
  if (frames != kept.size() || kept[1].size() != k_sequence_bytes) {
    ++status_->misframed;
    return receipt::misframed;
  }
  out.sequence = from_big_endian(kept[1]);
  out.payload = std::move(kept[2]);
  return receipt::whole;
}

void event_stream::read_live(clock::time_point now) {
  for (int n = 0; n < k_messages_at_once && !is_refused_; ++n) {
    message one;
    const auto got = receive(live_, one);
    if (got == receipt::nothing) return;
    read_connection(now, false);
    if (is_refused_) return;
    if (got == receipt::whole && one.sequence != k_end_of_replay) {
      take_live(one, now);
    } else {
      tell(now, "frames", "a message is not three frames with a sequence number");
    }
  }
}

void event_stream::drain_live(clock::time_point now) {
  for (int n = 0; n < all_.limits.live_messages_max && !is_refused_; n += k_messages_at_once) read_live(now);
}

void event_stream::take_live(const message& one, clock::time_point now) {
  const auto batch = decode(one.payload, now);
  if (!batch) return;
  revive_pause_ = all_.limits.reconnect_first;
  ++status_->batches;
  status_->last_sequence = one.sequence;
  act(sink_->received(one.sequence, *batch), now);
}

void event_stream::read_replay(clock::time_point now) {
  for (int n = 0; n < k_messages_at_once && replay_ && !is_refused_; ++n) {
    message one;
    const auto got = receive(*replay_, one);
    if (got == receipt::nothing) return;
    if (got == receipt::whole) take_replayed(one, now);
  }
}

void event_stream::take_replayed(const message& one, clock::time_point now) {
  replay_idle_ends_ = now + all_.limits.replay_idle;
  if (one.sequence == k_end_of_replay) {
    stop_replay();
    act(sink_->replay_ended(), now);
    return;
  }
  const auto batch = decode(one.payload, now);
  if (!batch) return;
  ++status_->replayed;
  act(sink_->replayed(one.sequence, *batch), now);
}

std::optional<prefix_index::kv_batch> event_stream::decode(const zmq::message_t& payload,
                                                           clock::time_point now) {
  status_->bytes += payload.size();
  auto decoded = decode_batch(std::span(static_cast<const std::byte*>(payload.data()), payload.size()));
  if (!decoded) {
    ++status_->undecodable;
    tell(now, "decode", "a batch cannot be decoded: " + decoded.error());
    return std::nullopt;
  }
  status_->skipped_events += decoded->skipped.total();
  return std::move(decoded->batch);
}

void event_stream::act(prefix_index::event_step step, clock::time_point now) {
  using kind = prefix_index::event_step::kind;
  for (int declined = 0; step.what != kind::go_on; ++declined) {
    if (step.what == kind::refused) return refuse(now);
    if (can_replay(now) || declined == k_declines_max) break;
    ++status_->replays_failed;
    step = sink_->replay_ended();
  }
  if (step.what != kind::replay || !can_replay(now)) return;
  stop_replay();
  wanted_from_ = step.from;
  replay_ends_ = now + all_.limits.replay_total;
  status_->is_replaying = true;
  if (now >= replay_not_before_) start_replay(now);
}

bool event_stream::can_replay(clock::time_point now) const {
  return !options_.replay_endpoint.empty() && now >= cools_until_;
}

void event_stream::start_replay(clock::time_point now) {
  replay_not_before_ = now + all_.limits.replay_spacing;
  if (all_.replays_running >= all_.limits.replays_at_once_max) return;
  replay_.emplace(socket(zmq::socket_type::dealer, all_.limits.replay_messages_max));
  ++all_.replays_running;
  ++status_->replays;
  replay_->connect(at_rank(options_.replay_endpoint, options_.data_parallel_rank));
  replay_idle_ends_ = now + all_.limits.replay_idle;
  const auto from = to_big_endian(*wanted_from_);
  replay_->send(zmq::message_t(), zmq::send_flags::sndmore | zmq::send_flags::dontwait);
  replay_->send(zmq::buffer(from), zmq::send_flags::dontwait);
}

void event_stream::stop_replay() {
  if (replay_) --all_.replays_running;
  replay_.reset();
  wanted_from_.reset();
  status_->is_replaying = false;
}

void event_stream::replay_failed(clock::time_point now) {
  stop_replay();
  ++status_->replays_failed;
  cools_until_ = now + all_.limits.replay_cooldown;
  act(sink_->replay_ended(), now);
}

void event_stream::refuse(clock::time_point now) {
  is_refused_ = true;
  status_->is_refused = true;
  stop_replay();
  close_live();
  tell(now, "refused", fmt::format("its events are of no use: {}", sink_->refusal()));
}

void event_stream::tell(clock::time_point now, const char* kind, const std::string& what) {
  if (!all_.notify) return;
  const auto [at, is_first] = told_.try_emplace(kind, now);
  if (!is_first && now < at->second + k_notice_spacing) return;
  at->second = now;
  all_.notify(options_.name, what);
}

}  // namespace weir::gateway::kv_events
