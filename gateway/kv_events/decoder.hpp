// One batch of KV events, as a replica publishes it in MessagePack, to plain values. The bytes are hostile
// until read: every count, size and number is held against a named limit, and what breaks the form of events
// is an error that names it; then nothing of the batch counts, since what it said is lost. What is well
// formed but no evidence for prefixes of text is left out and counted.
//
// Accepted: a batch as an array [time, events, rank] or a map; each event as a map with "type" or an array
// that starts with it; hashes as integers or digests; pairs of tokens under MTP and EAGLE (the first of each
// counts). Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>

#include "prefix_index/kv_event.hpp"

namespace weir::gateway::kv_events {

inline constexpr std::size_t k_payload_bytes_max = 16 << 20;  // three prompts of a million tokens in one step
inline constexpr std::size_t k_batch_events_max = 64 << 10;
inline constexpr int k_depth_max = 16;
inline constexpr std::int64_t k_rank_max = 4'095;

struct skipped_events {
  std::uint32_t unknown_type = 0;
  std::uint32_t not_text = 0;   // their first block holds images, embeddings or what we do not know
  std::uint32_t not_local = 0;  // held elsewhere, or where is not known
  std::uint32_t unknown_medium = 0;
  std::uint32_t inconsistent = 0;  // of pages: not one whole block of tokens for its hashes

  std::uint32_t total() const noexcept {
    return unknown_type + not_text + not_local + unknown_medium + inconsistent;
  }
};

struct decoded_batch {
  prefix_index::kv_batch batch;
  skipped_events skipped;
};

// The error is a sentence. Pages whose tokens and hashes disagree in number are cut to the whole blocks that
// both have, and an event whose later block is no text is cut before it. Checkpoints keep all tokens that
// they came with: one hash may stand at the end of many blocks.
std::expected<decoded_batch, std::string> decode_batch(std::span<const std::byte> payload);

}  // namespace weir::gateway::kv_events
