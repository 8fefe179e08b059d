// What a replica says of its cache: the KV events of vLLM and SGLang as plain values, whatever their wire
// form was. Decoders make them, event_source applies them. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace weir::prefix_index {

// The engine's own name of a block. A digest in bytes becomes the low 64 bits of it read big-endian, as
// vLLM's integer form does.
using engine_hash = std::uint64_t;

enum class kv_medium : std::uint8_t { device, host, storage };

// The group of layers whose state an event speaks of.
enum class kv_group : std::uint8_t {
  pages,       // full, MLA or sink attention; an engine that names no kind
  checkpoint,  // mamba: KDA recurrent state
  other,       // sliding windows, encoders: no evidence for prefixes
};

struct kv_stored {
  std::vector<engine_hash> hashes;    // a chain, in order
  std::optional<engine_hash> parent;  // absent: the first block starts a prompt
  std::vector<std::int32_t> tokens;   // hashes.size() * block_tokens; empty: known hash, unknown tokens
  std::uint32_t block_tokens = 0;
  kv_medium medium = kv_medium::device;
  kv_group group = kv_group::pages;
  std::int32_t group_index = 0;
  std::string adapter;     // LoRA name or empty
  std::string cache_salt;  // as the request that made the first block carried it
};

struct kv_removed {
  std::vector<engine_hash> hashes;
  kv_medium medium = kv_medium::device;
  std::optional<std::int32_t> group_index;  // absent: the engine has one group
};

struct kv_cleared {};

using kv_event = std::variant<kv_stored, kv_removed, kv_cleared>;

struct kv_batch {
  double time_s = 0;
  std::int32_t data_parallel_rank = 0;
  std::vector<kv_event> events;
};

}  // namespace weir::prefix_index
