// How one sequence turns logits into tokens. Plain values; check() is the only gate, so a constructed sampler
// may trust them. Immutable after check(); any thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/result.hpp"

namespace weir::engine {

inline constexpr int k_top_logprobs_max = 20;

struct sampling_params {
  float temperature = 0.0F;        // [0, 2]; 0 is greedy: argmax, lowest id on a tie
  float top_p = 1.0F;              // (0, 1]
  std::int32_t top_k = 0;          // 0 = off
  float min_p = 0.0F;              // [0, 1]: drop tokens below min_p * max probability
  float presence_penalty = 0.0F;   // [-2, 2], on generated tokens, as OpenAI defines it
  float frequency_penalty = 0.0F;  // [-2, 2], on generated tokens, as OpenAI defines it
  std::uint64_t seed = 0;          // the same seed, request and model give the same tokens
  std::vector<std::pair<std::int32_t, float>> logit_bias;  // token id -> [-100, 100]
  int top_logprobs = -1;  // -1: no logprobs; 0..20: the chosen token's and that many alternatives
};

// Names the first value out of range and its range.
result<void> check(const sampling_params& params, std::int32_t vocab_size);

}  // namespace weir::engine
