// Weights in fewer bits than the checkpoint has, made when it is loaded. Decode reads every weight of a token
// once, so its speed is that of memory: half the bytes, nearly twice the tokens.
//
// int8: the matrices of products, those of routed experts included; each k_int8_group of a row is scaled to
// its largest value and rounded to nearest. mxfp4: routed experts alone, as Kimi K3 is published; a group's
// exponent is the better one, by squared error, of two. What is small or steers stays as it is: embedding,
// router, decay and beta of KDA, MLA's kv_b_proj (the absorbed form needs it by columns), vectors; so does a
// matrix whose rows are no whole groups, and one that is packed already.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/model/weight_format.hpp"
#include "engine/model/weights.hpp"
#include "kernels/parallel.hpp"

namespace weir::engine::model {

// `told`: after each matrix, values done and to do. May be empty. Throws std::bad_alloc.
void narrow_weights(model_weights& weights, weight_format format, kernels::thread_pool& pool,
                    const std::function<void(std::int64_t done, std::int64_t all)>& told);

// [rows, cols] of whole groups, in the format of `to.type`. REQUIRES: `to` points to writable memory.
void narrow_matrix(const matrix& from, const matrix& to, kernels::thread_pool& pool);

}  // namespace weir::engine::model
