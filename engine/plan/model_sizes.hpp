// What a configuration says of a model's size, before a weight is there: parameters, bytes of weights, and
// the bytes that a sequence's two kinds of state take. Pure; any thread.
#pragma once

#include <cstdint>

#include "engine/model/model_config.hpp"
#include "engine/model/weight_format.hpp"

namespace weir::engine::plan {

struct weight_counts {
  std::int64_t kept = 0;      // parameters that are never narrowed
  std::int64_t products = 0;  // of the trunk's matrices that weight_format::int8 narrows
  std::int64_t routed = 0;    // of all routed experts
  std::int64_t total() const noexcept { return kept + products + routed; }
};

weight_counts count_weights(const model::model_config& config);

// As published: two bytes a parameter, routed experts in MXFP4 (a nibble each and a scale byte for 32 of
// them) where the configuration says so; or narrowed at load.
std::int64_t weight_bytes(const model::model_config& config, weight_format format = weight_format::stored);

// About what a step of `rows` tokens, `logit_rows` of them with logits, takes beside the state, in numbers of
// `scalar` bytes.
std::int64_t activation_bytes(const model::model_config& config, std::int64_t rows, std::int64_t logit_rows,
                              std::int32_t scalar);

// Bytes of one number.
struct number_formats {
  std::int32_t state = 4;   // of the recurrent state
  std::int32_t tail = 2;    // of the convolutions' last inputs
  std::int32_t latent = 2;  // of the MLA latents
};

// A sequence's KDA state, and as much a checkpoint of it.
std::int64_t state_bytes(const model::model_config& config, const number_formats& formats);

// A token's MLA latents.
std::int64_t token_bytes(const model::model_config& config, const number_formats& formats);

}  // namespace weir::engine::plan
