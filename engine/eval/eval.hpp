// Compares a checkpoint with golden values, through the same runner as the engine uses. Blocks; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <vector>

#include "engine/engine.hpp"
#include "engine/result.hpp"
#include "engine/runner/model_runner.hpp"

namespace weir::engine::eval {

struct eval_options {
  std::filesystem::path model_dir;
  std::filesystem::path cases;  // golden.json
  backend_kind backend = backend_kind::automatic;
  weight_format weights = weight_format::stored;
  activation_format activations = activation_format::float32;  // not of the reference
  int compute_threads = 1;
  // Absolute; a token may differ where the margin between candidates is below twice this. Nothing:
  // default_tolerance().
  std::optional<double> tolerance;
  std::int32_t cases_max = 0;       // the first so many of them alone; 0: all
  std::int32_t chunk_tokens = 512;  // prompts run in chunks of this many tokens
  std::int32_t page_tokens = 64;
  ranks_config ranks;  // of which this is rank 0
  double latent_norm_eps = runner::k_latent_norm_eps;
  double l2_norm_eps = runner::k_l2_norm_eps;
};

// What rounding alone explains: the reference computes in double, the cpu backend in float32, and residual
// blocks or narrow latents amplify what that rounds.
double default_tolerance(backend_kind backend, const model::model_config& model) noexcept;

// Values that the golden ones have, and ours were compared with.
struct eval_counts {
  std::int64_t logits = 0;
  std::int64_t next_logprob = 0;
  std::int64_t kda_state = 0;
  std::int64_t argmax = 0;
  std::int64_t greedy = 0;

  std::int64_t all() const noexcept { return logits + next_logprob + kda_state + argmax + greedy; }
};

// Worst absolute errors, 0 for a quantity the golden values do not have. NaN anywhere counts as infinite.
struct eval_errors {
  double logits = 0.0;  // of the last position
  double next_logprob = 0.0;
  double kda_state = 0.0;  // of the norms
  std::int32_t argmax_mismatches =
      0;  // positions; where our own two best differ by less than the tolerance it is none
  std::int32_t greedy_mismatches =
      0;  // cases whose continuation differs at a step with a margin over the tolerance
};

struct eval_case {
  std::int32_t prompt_tokens = 0;
  std::int32_t greedy_tokens = 0;  // compared
  eval_counts compared;
  eval_errors errors;
};

struct eval_report {
  std::vector<eval_case> cases;
  eval_counts compared;  // sums
  eval_errors worst;     // errors: the maximum over cases; mismatches: their sum
  double tolerance = 0.0;
  backend_kind backend = backend_kind::cpu;  // that computed
  std::int64_t tokens = 0;                   // run, prompts and continuations
  double seconds = 0.0;                      // of running them

  // Every error within the tolerance and no mismatch.
  bool passed() const noexcept;
};

// errc::bad_request for an option out of range, and where no case has a value to compare with.
result<eval_report> evaluate(const eval_options& options);

// Computes another rank's part until rank 0's evaluate() has ended.
result<void> follow_evaluation(const eval_options& options);

}  // namespace weir::engine::eval
