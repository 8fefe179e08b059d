// What the cache tells the outside of itself, in the terms of vLLM's KV events: blocks of one hash unit
// stored and removed, in a group for the MLA pages and one for the KDA checkpoints, which say their position.
// Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::engine::cache {

struct cache_event {
  enum class kind : std::uint8_t { stored, removed };
  enum class group : std::uint8_t {
    mla_pages,       // kind mla_attention: the latents of the block's tokens
    kda_checkpoint,  // kind mamba: the recurrent state after the block's last token
  };
  kind what = kind::stored;
  group of = group::mla_pages;
  std::uint64_t hash = 0;            // of the scope and all tokens up to the block's end
  std::uint64_t parent_hash = 0;     // of the block before; meaningless when position is the block's size
  std::int32_t position = 0;         // tokens up to the block's end
  std::string scope;                 // stored only
  std::vector<std::int32_t> tokens;  // of the block; stored only
};

}  // namespace weir::engine::cache
