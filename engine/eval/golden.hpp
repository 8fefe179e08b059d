// Golden values of a checkpoint: token-id prompts with what an exact implementation computes for them.
// Immutable once read.
//
// golden.json: {"cases": [{"prompt": [P], "logits": [V] of the last position, "argmax": [P], "next_logprob":
// [P-1] of the prompt's tokens after the first, "kda_state": Frobenius norm per KDA layer after the prompt,
// "greedy": continuation, "greedy_margin": gap between the two largest logits at each of its steps}]}; all
// but the prompt may be absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "engine/model/model_config.hpp"
#include "engine/result.hpp"

namespace weir::engine::eval {

inline constexpr std::size_t k_golden_bytes_max = std::size_t{256} << 20;
inline constexpr std::size_t k_cases_max = 4096;
inline constexpr std::size_t k_case_tokens_max = 1U << 20;

struct golden_case {
  std::vector<std::int32_t> prompt;   // not empty, in the vocabulary
  std::vector<double> logits;         // [V] or empty
  std::vector<std::int32_t> argmax;   // [P] or empty
  std::vector<double> next_logprob;   // [P-1] or empty
  std::vector<double> kda_state;      // [KDA layers] or empty
  std::vector<std::int32_t> greedy;   // any length
  std::vector<double> greedy_margin;  // as long as greedy, or empty
};

// errc::bad_model names the case and the key whose length or values do not fit the model.
result<std::vector<golden_case>> read_golden(const std::filesystem::path& path,
                                             const model::model_config& model);

}  // namespace weir::engine::eval
