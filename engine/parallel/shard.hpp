// A rank's part of a model: its weights, and the configuration that its runner then computes with.
//
// Divided: KDA heads, MLA heads, the widths of dense, shared and (split_kind::tensor) routed feed-forward
// blocks, routed experts by number (split_kind::expert), the rows of the head. Whole on every rank:
// embedding, norms, router, low-rank and latent projections, so that every rank keeps the same MLA pages.
// Rows of a matrix are viewed where they are; columns are copied, as the rank's own memory. Pure but for
// that; any thread.
#pragma once

#include "engine/model/model_config.hpp"
#include "engine/model/weight_format.hpp"
#include "engine/model/weights.hpp"
#include "engine/parallel/split.hpp"
#include "engine/result.hpp"

namespace weir::engine::parallel {

// Before a weight is read. errc::bad_request names the key of config.json whose number the ranks do not
// divide, or whose part would cut through groups of weights that share a scale: in the checkpoint, or as
// `format` narrows them, which after this gives the very values that narrowing the whole matrix would.
result<void> check_shard(const model::model_config& config, weight_format format, const shard& part);

// Heads and widths are the rank's; vocab_size and experts stay those of the whole model.
model::model_config config_of(const model::model_config& whole, const shard& part);

// Cuts `weights` down to the rank's part, before they are narrowed; weight_bytes become those of its matrices
// and of all vectors. Throws std::bad_alloc. REQUIRES: check_shard() agreed.
void take_shard(model::model_weights& weights, const model::model_config& whole, const shard& part);

}  // namespace weir::engine::parallel
