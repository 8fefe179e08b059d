// The generation fields that chat and completions share, read once from JSON into ranges that everything
// below may trust. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gateway/api/json.hpp"

namespace weir::gateway::api {

inline constexpr std::int64_t k_choices_max = 16;  // n, and prompts x n: each choice is a sequence of its own
inline constexpr std::size_t k_stops_max = 16;     // OpenAI allows 4, vLLM users send more
inline constexpr std::size_t k_stop_bytes_max = 1024;      // one stop string
inline constexpr std::size_t k_logit_bias_max = 1024;      // entries
inline constexpr std::size_t k_checkpoint_hints_max = 64;  // as the engine takes them
inline constexpr std::int64_t k_token_id_max = (1LL << 31) - 1;
inline constexpr std::int64_t k_output_tokens_max = 1LL << 30;

struct generation_options {
  std::string model;
  bool stream = false;
  bool include_usage = false;
  std::int64_t n = 1;
  std::optional<std::int64_t> max_tokens;
  std::int64_t max_tokens_unasked = 0;  // at most so many where the client names no number; 0: what fits
  std::optional<float> temperature;     // absent: the model's own default
  std::optional<float> top_p;
  std::optional<std::int64_t> top_k;
  float min_p = 0;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::optional<std::int64_t> seed;
  std::vector<std::pair<std::int32_t, float>> logit_bias;
  std::vector<std::string> stop;
  bool ignore_eos = false;                  // generates up to its limit
  std::int64_t min_tokens = 0;              // before the answer may end by itself
  std::vector<std::int32_t> checkpoint_at;  // weir_checkpoint_at: prefixes worth a checkpoint, in tokens
  int top_logprobs = -1;                    // -1: none asked for
};

void read_generation_options(field_reader& in, generation_options& out);

}  // namespace weir::gateway::api
