// What tokenizing already-seen text gave, so that a follow-up turn tokenizes only what is new.
//
// A prompt is cut into chunks whose places depend on what stands before them alone, and the hash of a chunk
// includes the hash of the one before, from the chain's root on. So a chunk's hash stands for the whole
// prompt up to its end within one sharing scope, and what is remembered for it (keys of the units that end in
// it, tokens of the unit that does not yet) can be taken over without looking at text or tokens.
//
// Forgetting any entry at any time is always right. Any thread: the shards' locks are held for the copy of
// one entry.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/text/tokenizer.hpp"
#include "prefix_index/block_key.hpp"

namespace weir::gateway {

// About 2 GB of distinct prompt text at 450 bytes for each 4 KiB of it.
inline constexpr std::size_t k_prompt_memory_bytes_default = 256ULL << 20;

// Where the keying of a prompt stands.
struct keying_state {
  std::uint64_t tokens = 0;              // from the prompt's beginning on
  std::vector<std::int32_t> unfinished;  // tokens of the last unit, fewer than a unit has
  engine::text::text_state text;         // within the text that a chunk may end in
};

class prompt_memory final {
 public:
  explicit prompt_memory(std::size_t bytes_max = k_prompt_memory_bytes_default);

  // If the chunk is remembered: appends the keys of units that end in it, sets `state` to its end.
  bool recall(const prefix_index::block_key& chunk, std::vector<prefix_index::block_key>& keys,
              keying_state& state);

  // Keeps that for a chunk. The least recently used of its shard give way.
  void remember(const prefix_index::block_key& chunk, std::span<const prefix_index::block_key> keys,
                const keying_state& state);

  std::size_t bytes() const;  // of all entries with their overhead, at most bytes_max
  std::size_t bytes_max() const noexcept { return shard_bytes_max_ * k_shards; }

 private:
  static constexpr std::size_t k_shards = 16;

  struct entry {
    prefix_index::block_key chunk;
    std::uint64_t tokens;
    engine::text::text_state text;
    std::uint32_t key_count;
    std::uint32_t unfinished_count;
    std::unique_ptr<std::byte[]> data;  // keys, then unfinished tokens

    std::size_t bytes() const;
  };
  struct chunk_hash {
    std::size_t operator()(const prefix_index::block_key& key) const noexcept { return key.low; }
  };
  struct shard {
    mutable std::mutex mutex;
    std::list<entry> by_use;  // most recently used first
    std::unordered_map<prefix_index::block_key, std::list<entry>::iterator, chunk_hash> by_chunk;
    std::size_t bytes = 0;
  };

  shard& shard_of(const prefix_index::block_key& chunk) { return shards_[chunk.high % k_shards]; }

  std::size_t shard_bytes_max_;
  std::array<shard, k_shards> shards_;
};

}  // namespace weir::gateway
