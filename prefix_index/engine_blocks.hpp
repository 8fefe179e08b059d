// An engine's blocks as units of ours: which of our keys an engine hash stands for. Two forms behind one
// interface: blocks of one or more whole units, and blocks that are a part of a unit. Internal to
// event_source.
//
// Threads: the source's strand.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "prefix_index/kv_event.hpp"
#include "prefix_index/residency_index.hpp"

namespace weir::prefix_index {

inline constexpr std::size_t k_hashes_per_replica_max = std::size_t{1} << 25;

enum class block_result : std::uint8_t {
  stored,
  unknown_parent,
  no_room,        // the index or the map is full
  contradiction,  // the hash already stands for another prompt, or another hash for this one
};

// Stored blocks of one event: hashes in chain order, block_tokens of `tokens` each.
struct block_run {
  std::span<const engine_hash> hashes;
  std::span<const std::int32_t> tokens;
  std::optional<engine_hash> parent;
  block_key root;  // if there is no parent
  kv_medium medium = kv_medium::device;
};

class engine_blocks {
 public:
  virtual ~engine_blocks() = default;

  // Stops at the first block that is not stored; `stored` counts those before it.
  virtual block_result store(const block_run& run, std::size_t& stored) = 0;

  // One more copy of a block that is known; false if it is not.
  virtual bool store_known(engine_hash hash, kv_medium medium) = 0;

  // One copy less; false if the hash is unknown.
  virtual bool remove(engine_hash hash, kv_medium medium) = 0;

  // The end of the block as a place for a checkpoint; nothing if it is unknown or ends inside a unit.
  virtual std::optional<chain_boundary> boundary(engine_hash hash) const = 0;

  virtual void clear() = 0;
  virtual std::size_t size() const = 0;
  virtual std::size_t bytes() const = 0;
};

struct block_shape {
  replica_id replica = 0;
  std::uint32_t unit_tokens = 0;
  std::uint32_t block_tokens = 0;
  bool needs_boundaries = false;
  std::uint64_t seed = 0;
};

// Whether blocks of this size can be mapped to units at all.
bool fits(std::uint32_t unit_tokens, std::uint32_t block_tokens);

// REQUIRES: fits().
std::unique_ptr<engine_blocks> make_engine_blocks(residency_index& index, const block_shape& shape);

// The two forms. REQUIRES: block_tokens a multiple of unit_tokens; the other way round, and smaller.
std::unique_ptr<engine_blocks> make_large_blocks(residency_index& index, const block_shape& shape);
std::unique_ptr<engine_blocks> make_small_blocks(residency_index& index, const block_shape& shape);

}  // namespace weir::prefix_index
