// Where a replica that takes hints should keep a checkpoint of a prompt (`weir_checkpoint_at`). A checkpoint
// weighs as much as thousands of tokens of pages, so few boundaries are worth one:
//   the prompt's end, when the prompt is long enough that resuming it saves something: the next turn of a
//   conversation starts there;
//   the junction, where pages that the replica holds go on beyond what it can resume: a prefix seen for the
//   second time, which the next prompt that shares it will resume.
// Pure; any thread.
#pragma once

#include <cstdint>

#include "policy/types.hpp"

namespace weir::policy {

struct hint_terms {
  std::int64_t unit_tokens = 64;          // boundaries are multiples of it
  std::int64_t prompt_tokens_min = 2048;  // shorter prompts earn no checkpoint at their end
  std::int64_t junction_tokens_min = 512;
};

struct checkpoint_hints {
  std::int64_t at[2] = {};  // tokens from the prompt's start, ascending
  int count = 0;
};

// For a prompt going to a target that holds `prefix` of it.
checkpoint_hints hints_for(std::int64_t prompt_tokens, const prefix_view& prefix,
                           const hint_terms& terms) noexcept;

}  // namespace weir::policy
