// Which replica holds which prefix, in memory: for every chain key the replicas that hold its pages and the
// replicas that hold a recurrent checkpoint at its end, each with the evidence for it.
//
// A unit's key covers everything before it, so a key has one depth and the records of a prompt form a chain.
// Residency is nearly prefix-closed (engines evict tails first): a lookup searches instead of walking, then
// looks for holes, and a hole shortens the match. A replica's checkpoint counts only at or below its pages.
//
// Invariants: one record per key; a record has at most one page entry and one checkpoint entry per replica
// and source; an entry counts only if its replica's epoch (events) or horizon (simulated) says so, which
// makes clear() O(1). Memory never exceeds options.bytes_max: dead entries are swept as others are written,
// keys that no replica holds any more are kept as sightings while there is room, then reclaimed; when every
// key is held, new keys are refused and counted.
//
// Threads: find() and the other const functions on any thread, never blocking; writers on any thread, they
// lock one of 256 shards for one key at a time. Writes of one replica must come from one thread or under one
// lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "prefix_index/block_key.hpp"
#include "prefix_index/kv_event.hpp"

namespace weir::prefix_index {

// Dense, given by the owner, reused only after clear(): less than k_replicas_max.
using replica_id = std::uint16_t;
inline constexpr replica_id k_replicas_max = 1024;

// A prompt has at most this many units (64 M tokens in units of 64); what is longer is cut.
inline constexpr std::size_t k_chain_units_max = (std::size_t{1} << 20) - 1;

inline constexpr std::size_t k_index_bytes_default = std::size_t{1} << 30;  // some 20 M keys
inline constexpr std::size_t k_index_bytes_min = std::size_t{16} << 20;
inline constexpr std::size_t k_index_bytes_limit = std::size_t{8}
                                                   << 30;  // what an entry's chunk number reaches

// Why a holding is believed, weakest first.
enum class confidence : std::uint8_t {
  none,       // not held
  restored,   // read from disk after a restart
  predicted,  // from our own dispatches
  observed,   // a reply's cached_tokens named this boundary
  confirmed,  // a KV event
};

// Which records of a replica count.
enum class evidence : std::uint8_t {
  simulated,  // replica_model's
  events,     // event_source's
  implied,    // checkpoints only: every page boundary can be resumed (attention-only models, dense retention)
};

struct holding {
  std::uint32_t pages = 0;       // units with pages from the start of the prompt, without a hole
  std::uint32_t checkpoint = 0;  // units up to the deepest checkpoint <= pages; 0: none
  confidence pages_from = confidence::none;
  confidence checkpoint_from = confidence::none;
  kv_medium pages_medium = kv_medium::device;       // of the deepest unit
  kv_medium checkpoint_medium = kv_medium::device;  // of the checkpoint
};

struct chain_facts {
  std::uint32_t seen_units =
      0;                     // the deepest unit of this chain that any earlier request had, on any replica
  std::uint32_t probes = 0;  // keys looked up
};

struct index_options {
  std::size_t bytes_max = k_index_bytes_default;  // clamped to [k_index_bytes_min, k_index_bytes_limit]
  std::uint64_t seed = 1;                         // of the probes for holes
};

struct index_stats {
  std::uint64_t keys = 0;
  std::uint64_t entries = 0;       // (key, replica) pages and checkpoints, dead ones not yet swept included
  std::uint64_t bytes = 0;         // what the tables, records and entries take
  std::uint64_t keys_refused = 0;  // no room: every key is held
  std::uint64_t keys_reclaimed = 0;
};

// Names a record while any entry of it counts; what pages_added gave may be used until the same replica's
// last page of it is removed or the replica is cleared. 0 names nothing.
using record_id = std::uint32_t;

// Lookups find checkpoints through summaries kept at the first unit of every 32 and of every 1024.
inline constexpr std::uint32_t k_near_units = 32;
inline constexpr std::uint32_t k_far_units = 1024;

// The end of a unit, as a place for a checkpoint.
struct chain_boundary {
  block_key key;
  std::uint32_t unit = 0;  // its index: a prompt of unit + 1 units ends there
  block_key near;          // the chain's key at unit - unit % k_near_units
  block_key far;           // and at unit - unit % k_far_units
};

// REQUIRES: unit < chain.size().
chain_boundary boundary_of(std::span<const block_key> chain, std::uint32_t unit);

// One entry as the store sees it.
struct stored_entry {
  replica_id replica = 0;
  bool checkpoint = false;
  confidence from = confidence::none;
  kv_medium medium = kv_medium::device;
  std::uint64_t stamp = 0;  // simulated: the dispatch that touched it last; else 0
};

class residency_index final {
 public:
  struct impl;  // the folder's own

  explicit residency_index(const index_options& options = {});
  ~residency_index();
  residency_index(const residency_index&) = delete;
  residency_index& operator=(const residency_index&) = delete;

  // out[i] is what replicas[i] holds of the chain. At most O((log n + holes) x replicas) keys are looked up,
  // and for checkpoints n/1024 + n/32 + a named cap of candidates; one look-up answers for all replicas.
  // REQUIRES: out.size() == replicas.size().
  chain_facts find(std::span<const block_key> chain, std::span<const replica_id> replicas,
                   std::span<holding> out) const;

  // Which evidence counts for a replica; simulated and simulated at first.
  void set_evidence(replica_id replica, evidence pages, evidence checkpoints);

  // Forgets everything of one replica in O(1).
  void clear(replica_id replica);

  // Changes with every clear(): who keeps record_ids of a replica drops them when it changed.
  std::uint64_t epoch(replica_id replica) const;

  // Events: one more copy of each unit's pages. keys[i] is the unit at depth first_unit + i. ids may be
  // empty; an id is 0 where a key was refused. Returns how many of these units the replica held already.
  std::size_t pages_added(replica_id replica, std::span<const block_key> keys, std::uint32_t first_unit,
                          kv_medium medium, std::span<record_id> ids);

  // Events: the copies that are counted of a unit, on all media; 0 where the replica holds none.
  std::size_t copies(replica_id replica, record_id id) const;

  // Events: one copy less on that medium; more than could be counted stay until the replica is cleared.
  // Returns how many of these units the replica holds no more, anywhere.
  std::size_t pages_removed(replica_id replica, std::span<const record_id> ids, kv_medium medium);

  // Events: the replica can resume after the boundary's unit.
  void checkpoint_added(replica_id replica, const chain_boundary& boundary, kv_medium medium);
  void checkpoint_removed(replica_id replica, const block_key& boundary);

  // A reply said that only `cached_units` of this chain could be reused when it was sent: checkpoints of this
  // replica deeper than that, up to and without the end of the chain, are not counted until they are stored
  // again; the boundary itself becomes observed. Pages stay: the request has just computed them.
  void correct(replica_id replica, std::span<const block_key> chain, std::uint32_t cached_units);

  // The key and depth (index of its unit) of a record that is still named.
  block_key key_of(record_id id) const;
  std::uint32_t depth_of(record_id id) const;

  index_stats stats() const;

 private:
  friend class replica_model;
  friend class index_store;
  std::unique_ptr<impl> impl_;
};

}  // namespace weir::prefix_index
