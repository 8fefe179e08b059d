// Applies one replica's KV events to the index: the sequence state machine of its stream and the engine's
// names of blocks mapped to our keys. No I/O: the owner decodes messages, calls on_*, and does what the
// answer says.
//
// Streams lose batches by design (a slow joiner, a full send queue), so every batch carries a sequence
// number:
//   in order          applied
//   a gap             the answer asks for a replay; live batches wait, bounded, until replay_ended()
//   a replayed gap    the lost batches are gone: the replica is cleared, the stream goes on from here
//   a lower number    than an earlier live one: the engine restarted: cleared
// A replay is asked for at most k_replay_attempts_max times in a row without progress; then the replica is
// cleared.
//
// A stored block is found by its parent, whose key we know; a block with an unknown parent is ignored and
// counted, never taken for a prompt's start. Blocks smaller than a unit make it present when all are; a
// larger block gives several units; a size that fits neither way refuses the stream with a reason (the owner
// logs it and uses replica_model). Hashes are kept apart by (group kind, hash). A checkpoint counts when
// every checkpoint group of the replica holds it and its position follows from the page block of the same
// hash; what is ambiguous is ignored and counted.
//
// Threads: one strand per source. It writes to the index as the only writer of its replica's events.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "prefix_index/kv_event.hpp"
#include "prefix_index/residency_index.hpp"

namespace weir::prefix_index {

inline constexpr std::uint32_t k_replay_attempts_max = 3;
inline constexpr std::size_t k_waiting_batches_max = 10'000;  // as many as vLLM's own replay ring holds
inline constexpr std::size_t k_event_hashes_max = 65'536;     // per event; a 1M-token prompt in blocks of 16
inline constexpr std::size_t k_event_tokens_max = 4'194'304;  // per event
inline constexpr std::uint32_t k_block_tokens_max = 65'536;

// The root of a sharing scope's chains, by adapter and by the cache_salt that our requests carry; nothing for
// a salt that is not ours.
using scope_lookup =
    std::function<std::optional<block_key>(std::string_view adapter, std::string_view cache_salt)>;

struct event_source_options {
  std::uint32_t unit_tokens = k_unit_tokens_default;
  bool has_checkpoints = false;         // the model has recurrent state: pages alone cannot be resumed
  std::int32_t data_parallel_rank = 0;  // batches of other ranks are ignored
  std::uint64_t seed = 1;               // of the map of engine hashes; random in production
};

struct event_counters {
  std::uint64_t batches = 0;
  std::uint64_t blocks_stored = 0;
  std::uint64_t blocks_removed = 0;
  std::uint64_t cleared = 0;
  std::uint64_t gaps = 0;
  std::uint64_t restarts = 0;
  std::uint64_t replays_given_up = 0;
  std::uint64_t duplicates = 0;  // batches already applied
  std::uint64_t unknown_parent = 0;
  std::uint64_t unknown_scope = 0;
  std::uint64_t unknown_removed = 0;       // a removal of a hash that we never indexed
  std::uint64_t ambiguous_checkpoint = 0;  // all groups hold it, but no page hash tells where
  std::uint64_t no_room = 0;               // the index or the map of hashes is full
  std::uint64_t malformed = 0;             // over a cap, or sizes that contradict each other
  std::uint64_t unplaced = 0;              // a known hash whose tokens the event does not tell
};

// What the owner does next.
struct event_step {
  enum class kind : std::uint8_t {
    go_on,    // nothing
    replay,   // ask the engine for its batches from `from` on, then feed replayed() and replay_ended()
    refused,  // the block size does not fit: stop this source; event_source::refusal() says why
  };
  kind what = kind::go_on;
  std::uint64_t from = 0;
};

class event_source final {
 public:
  // The index outlives the source. Sets the replica's evidence: pages from events; checkpoints from events if
  // the model has them, else implied.
  event_source(residency_index& index, replica_id replica, const event_source_options& options,
               scope_lookup scopes);
  ~event_source();
  event_source(const event_source&) = delete;
  event_source& operator=(const event_source&) = delete;

  // A batch of the live stream.
  event_step received(std::uint64_t sequence, const kv_batch& batch);

  // The live stream was (re)established; the next live batch tells whether the engine restarted. Asks for a
  // replay from 0 the first time and from the next number later; the owner may decline with replay_ended().
  event_step reconnected();

  event_step replayed(std::uint64_t sequence, const kv_batch& batch);

  // The end marker came, or the owner gave up waiting: live batches that waited are applied.
  event_step replay_ended();

  // Known restart (health, counters going backwards), or the replica leaves.
  void reset();

  const event_counters& counters() const;
  std::string_view refusal() const;       // empty unless refused
  std::size_t bookkeeping_bytes() const;  // the map of engine hashes

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace weir::prefix_index
