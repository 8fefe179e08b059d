// What a prompt changed in a replica's cache, as a batch of KV events in the form of an engine: vLLM's maps
// with integer hashes, vLLM's arrays with digests, SGLang's arrays with signed hashes. Pure functions; any
// thread.
//
// Hybrid models have groups as vLLM's Kimi K3 has them: 0, 1 and 2 are `mamba`, 3 is `mla_attention`; their
// hashes of one boundary are equal. A checkpoint comes as one hash at the end of all tokens since the
// boundary before it, and before the pages of its step. Others have one group of full attention. SGLang tells
// of no checkpoints.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loadtest/mock/options.hpp"
#include "loadtest/truth/replica_cache.hpp"

namespace weir::loadtest::mock {

inline constexpr std::uint64_t k_checkpoint_groups = 3;

struct prompt_state {
  std::span<const std::int32_t> tokens;
  std::span<const truth::block_id> chain;
  std::string_view salt;
  std::size_t block_tokens = 0;
  std::size_t resumed_pages = 0;  // where the prefill began
};

// Empty when nothing changed. What came and went again within the step is not told.
std::string write_kv_batch(kv_form form, const prompt_state& prompt,
                           std::span<const truth::cache_change> changes, bool is_hybrid, double time_s);

std::string write_cleared_batch(kv_form form, double time_s);

}  // namespace weir::loadtest::mock
