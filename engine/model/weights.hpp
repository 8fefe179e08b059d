// A checkpoint's tensors bound to their places in the network, every shape checked. Matrices stay in the
// mapped files in their stored dtype, packed ones included, unless they are narrowed afterwards
// (narrow_weights.hpp); vectors (norms, biases, convolution taps) are widened to float once.
// Immutable once loaded; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/model/huge_arena.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/tensor_source.hpp"
#include "engine/result.hpp"
#include "kernels/params.hpp"

namespace weir::engine::model {

using kernels::matrix;
using floats = std::span<const float>;  // into model_weights::vectors, or a copy of them on a device

inline std::int64_t values_of(const matrix& m) {
  return static_cast<std::int64_t>(m.rows) * m.cols;
}

// Letters as in kernels/params.hpp; M = hidden_size, C = kda_channels.
struct kda_weights {
  matrix q, k, v;                 // [C, M]
  floats q_conv, k_conv, v_conv;  // [K, C] (stored [C, 1, K])
  matrix decay_a;                 // [D, M]
  matrix decay_b;                 // [C, D]
  matrix gate_a;                  // [D, M]; null with a full-rank gate
  matrix gate;                    // [C, D], of gate_a's output, or [C, M]
  matrix beta;                    // [H, M]
  floats a_log;                   // [H]
  floats dt_bias;                 // [C]
  floats norm;                    // [D]
  matrix out;                     // [M, C]
};

struct mla_weights {
  matrix q;         // [H * (Dn + Dr), M], or from the query latent when q_lora_rank > 0
  matrix q_a;       // [q_lora_rank, M]; null without
  floats q_a_norm;  // [q_lora_rank]
  matrix kv_a;      // [R + Dr, M]
  floats kv_norm;   // [R]
  matrix kv_b;      // [H * (Dn + Dv), R]
  matrix gate;      // [H * Dv, M]; null without an output gate
  matrix out;       // [M, H * Dv]
};

struct mlp_weights {
  matrix gate, up;  // [F, M]
  matrix down;      // [M, F]
};

// L = model_config::expert_dim(), M or less.
struct moe_weights {
  matrix router;               // [E, M]
  floats bias;                 // [E]
  std::vector<matrix> w1, w3;  // [E] of [F, L]
  std::vector<matrix> w2;      // [E] of [L, F]
  matrix routed_down;          // [L, M]; this and the next null when L is M
  matrix routed_up;            // [M, L]
  floats routed_norm;          // [L]; empty without
  std::optional<mlp_weights> shared;
};

// How much each block of the residual stream counts in what is read from it.
struct mix_weights {
  floats norm;  // [M]
  floats proj;  // [M]
};

struct layer_weights {
  std::optional<mix_weights> attention_mix;  // with residual blocks, from the second layer on
  std::optional<mix_weights> mlp_mix;        // with residual blocks
  floats input_norm;                         // [M]
  floats post_norm;                          // [M]
  std::optional<kda_weights> kda;            // one of these two
  std::optional<mla_weights> mla;
  std::optional<mlp_weights> dense;  // one of these two
  std::optional<moe_weights> moe;
};

struct model_weights {
  std::shared_ptr<tensor_source> source;  // what the matrices point into
  std::vector<std::unique_ptr<std::byte[]>>
      copies;  // matrices whose file offset is not aligned to their element
  std::vector<std::vector<float>> vectors;
  huge_arena made;                        // matrices that loading made: narrowed ones, a rank's columns
  std::shared_ptr<const void> elsewhere;  // what all views point into where that is a device's memory
  matrix embedding;                       // [V, M]
  matrix head;                            // [V, M]
  floats norm;                            // [M]
  std::optional<mix_weights> output_mix;
  std::vector<layer_weights> layers;
  std::int64_t parameter_count = 0;
  std::int64_t weight_bytes = 0;
};

// Matrices and vectors as views of the same memory, which the copy does not own.
model_weights copy_views(const model_weights& weights);

// errc::bad_model names a missing tensor, or a misshaped one with both shapes; errc::unsupported a dtype.
// Unknown tensors are tolerated.
result<model_weights> bind_weights(const model_config& config, std::shared_ptr<tensor_source> source);

}  // namespace weir::engine::model
