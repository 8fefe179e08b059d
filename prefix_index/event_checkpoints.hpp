// Which checkpoints a replica holds, from the events of its checkpoint groups: one counts when every group
// holds it and its place is known. A group's hash equals the page hash at the same boundary, so the place is
// that of the page block; an event that comes before its pages waits for them. Internal to event_source; its
// strand.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "prefix_index/engine_blocks.hpp"

namespace weir::prefix_index {

inline constexpr std::size_t k_checkpoint_groups_max = 16;
inline constexpr std::size_t k_checkpoints_per_replica_max = std::size_t{1} << 18;

class event_checkpoints final {
 public:
  event_checkpoints(residency_index& index, replica_id replica) : index_(index), replica_(replica) {}

  // False: too many groups or checkpoints.
  bool stored(std::int32_t group, std::span<const engine_hash> hashes, kv_medium medium);
  bool removed(std::int32_t group, engine_hash hash);      // false: unknown
  void pages_stored(std::span<const engine_hash> hashes);  // places what waited for them

  // At the end of a batch, when all groups have spoken. Returns how many are held by all groups at a place
  // that no page block tells (yet): ambiguous.
  std::size_t settle(const engine_blocks* pages);

  void clear();
  std::size_t bytes() const;

 private:
  struct checkpoint {
    std::array<std::uint8_t, k_checkpoint_groups_max> copies{};  // by group
    kv_medium medium = kv_medium::device;
    bool placed = false;
    block_key key;
  };

  bool complete(const checkpoint& c) const;

  residency_index& index_;
  const replica_id replica_;
  std::vector<std::int32_t> groups_;  // seen so far
  std::unordered_map<engine_hash, checkpoint> checkpoints_;
  std::vector<engine_hash> touched_;  // in this batch
  bool groups_changed_ = false;
};

}  // namespace weir::prefix_index
