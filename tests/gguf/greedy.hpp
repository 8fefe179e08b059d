// What this engine continues prompts with, step by step, for another engine to be compared with. Blocks; any
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/runner/model_runner.hpp"

namespace weir::tests::gguf {

inline constexpr std::int32_t k_steps_max = 1 << 16;

struct greedy_options {
  engine::backend_kind backend = engine::backend_kind::cpu;
  int compute_threads = 1;
  std::int32_t steps = 32;          // 1 .. k_steps_max
  std::int32_t chunk_tokens = 512;  // of a prompt
  std::size_t top = 16;             // logits shown of each step
  double latent_norm_eps = engine::runner::k_latent_norm_eps;
  double l2_norm_eps = engine::runner::k_l2_norm_eps;
};

// {"cases":[{"prompt":[...],"greedy":[a token per step],"greedy_margin":[between the two largest logits],
// "top":[[[token, logit], ... largest first] per step]}]}; the first three are the keys of golden.json.
// REQUIRES: prompts not empty, in the vocabulary, within the context with their steps.
std::string continue_greedily(std::shared_ptr<const engine::runner::loaded_model> model,
                              std::span<const std::vector<std::int32_t>> prompts,
                              const greedy_options& options);

}  // namespace weir::tests::gguf
