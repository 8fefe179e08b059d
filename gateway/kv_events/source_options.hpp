// What a source of KV events is told, what all are bounded by, and what each shows of itself.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <string>
#include <string_view>

namespace weir::gateway::kv_events {

// A replica's publisher. Each data-parallel rank is a source of its own, at the endpoints' ports + rank.
struct source_options {
  std::string name;             // in notices
  std::string endpoint;         // tcp://HOST:PORT or ipc://PATH, where the replica publishes
  std::string replay_endpoint;  // where it answers for past batches; empty: it does not
  std::string topic;            // a prefix; empty: all
  std::int32_t data_parallel_rank = 0;
};

// Relations: a replay that hears nothing for replay_idle ends, whatever replay_total leaves.
struct subscriber_limits {
  std::chrono::milliseconds reconnect_first{100};
  std::chrono::milliseconds reconnect_longest{30'000};
  std::chrono::milliseconds replay_total{120'000};
  std::chrono::milliseconds replay_idle{2'000};
  std::chrono::milliseconds replay_spacing{100};  // from one replay's start to the next one's
  std::chrono::milliseconds replay_cooldown{
      30'000};                          // behind one that failed; meanwhile gaps count as losses
  std::size_t replays_at_once_max = 8;  // of all sources; others wait, within replay_total
  int live_messages_max = 10'000;       // waiting in a socket; more is dropped and then replayed
  int replay_messages_max = 20'000;     // above vLLM's ring of 10,000, so that none is dropped
};

// Written by the subscriber's thread, read by any.
struct source_status {
  std::atomic<bool> is_connected{false};
  std::atomic<bool> is_refused{false};           // its events do not fit; nothing is read any more
  std::atomic<bool> is_replaying{false};         // waits for a replay or is in one
  std::atomic<std::uint64_t> connects{0};        // times that the stream was (re)established
  std::atomic<std::uint64_t> batches{0};         // live ones that were decoded
  std::atomic<std::uint64_t> bytes{0};           // of payloads, live and replayed
  std::atomic<std::uint64_t> replayed{0};        // batches
  std::atomic<std::uint64_t> replays{0};         // asked for
  std::atomic<std::uint64_t> replays_failed{0};  // ended by a limit or declined
  std::atomic<std::uint64_t> misframed{0};       // messages that are no three frames with a sequence number
  std::atomic<std::uint64_t> undecodable{0};     // batches: each leaves a gap, as if it had not come
  std::atomic<std::uint64_t> skipped_events{0};  // well formed, but no evidence
  std::atomic<std::uint64_t> last_sequence{0};
};

// A sentence for the log; called on the subscriber's thread, for each source and kind of trouble at most once
// a minute.
using notice = std::function<void(std::string_view source, std::string_view what)>;

// tcp://HOST:PORT with the port `rank` higher; ipc:// and inproc:// endpoints know rank 0 alone. The error is
// a sentence.
std::expected<std::string, std::string> rank_endpoint(const std::string& endpoint, std::int32_t rank);

}  // namespace weir::gateway::kv_events
