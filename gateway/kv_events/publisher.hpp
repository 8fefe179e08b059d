// The embedded engine's cache events onto ZeroMQ as vLLM does it: PUB with [topic, sequence, payload], and a
// ROUTER that answers for the last batches. Frames as in event_stream.hpp.
//
// Invariants: publish() waits for nobody but whoever copies a few words; what waits, is kept for replays and
// is on its way to a subscriber is bounded. Where events come faster than they can be written, all that wait
// are dropped and the next batch says AllBlocksCleared, so that no subscriber believes what may no longer
// hold; one that is slow itself loses batches, sees so by their numbers and asks for a replay. Numbers begin
// above all of an earlier process, with AllBlocksCleared: whoever followed that one finds a gap that no
// replay fills, even where nothing was stored since. Threads: publish() from one thread at a time, all else
// from any; sockets live on a thread of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/cache/cache_event.hpp"

namespace weir::gateway::kv_events {

// Events hold the prompts' tokens: the endpoints belong where the prompts may be read.
struct publisher_options {
  std::string endpoint;                      // tcp://HOST:PORT; port * or 0: a free one
  std::string replay_endpoint;               // likewise; empty: none
  std::size_t waiting_events_max = 1 << 16;  // four million tokens in blocks of 64
  std::size_t kept_batches_max = 10'000;     // for replays, as vLLM keeps
  std::size_t kept_bytes_max = std::size_t{64} << 20;
  std::optional<std::uint64_t> first_sequence;  // nothing: from the clock
};

struct publisher_counters {
  std::uint64_t batches = 0;  // written
  std::uint64_t dropped = 0;  // events
  std::uint64_t replays = 0;  // asked for
};

class publisher final {
 public:
  // The error is a sentence: an endpoint cannot be taken.
  static std::expected<std::shared_ptr<publisher>, std::string> open(const publisher_options& options);
  ~publisher();
  publisher(const publisher&) = delete;
  publisher& operator=(const publisher&) = delete;

  void publish(const std::vector<engine::cache::cache_event>& events);

  // As they were bound.
  const std::string& endpoint() const noexcept;
  const std::string& replay_endpoint() const noexcept;
  publisher_counters counters() const noexcept;

 private:
  struct impl;
  explicit publisher(std::unique_ptr<impl> made);
  std::unique_ptr<impl> impl_;
};

}  // namespace weir::gateway::kv_events
