#include "engine/plan/model_sizes.hpp"

#include <algorithm>

#include "kernels/dtype.hpp"

namespace weir::engine::plan {

using model::layer_kind;
using model::model_config;

namespace {

using std::int64_t;

// Of `count` layers, a matrix [rows, cols] that a row of activations is multiplied with.
void add_product(weight_counts& to, int64_t count, int64_t rows, int64_t cols) {
  (cols % kernels::k_int8_group == 0 ? to.products : to.kept) += count * rows * cols;
}

void add_mlp(weight_counts& to, int64_t count, int64_t width, int64_t hidden) {
  add_product(to, 2 * count, width, hidden);
  add_product(to, count, hidden, width);
}

void add_kda(const model_config& c, int64_t layers, weight_counts& to) {
  const int64_t hidden = c.hidden_size;
  const int64_t channels = c.kda_channels();
  const int64_t down = c.kda_dim * hidden;
  add_product(to, 3 * layers, channels, hidden);
  add_product(to, layers, hidden, channels);
  add_product(to, layers, channels, c.full_rank_gate ? hidden : c.kda_dim);
  to.kept += layers * (3 * channels * c.conv_taps + down + channels * c.kda_dim + channels + c.kda_heads +
                       c.kda_heads * hidden + (c.full_rank_gate ? 0 : down) + c.kda_dim);
}

void add_mla(const model_config& c, int64_t layers, weight_counts& to) {
  const int64_t hidden = c.hidden_size;
  const int64_t heads = c.mla_heads;
  const int64_t query_rows = heads * (c.nope_dim + c.rope_dim);
  const int64_t rank = c.q_lora_rank;
  if (rank > 0) add_product(to, layers, rank, hidden);
  add_product(to, layers, query_rows, rank > 0 ? rank : hidden);
  add_product(to, layers, c.latent_width(), hidden);
  add_product(to, layers, hidden, heads * c.value_dim);
  if (c.mla_output_gate) add_product(to, layers, heads * c.value_dim, hidden);
  to.kept += layers * (rank + c.kv_lora_rank + heads * (c.nope_dim + c.value_dim) * c.kv_lora_rank);
}

// Router, shared experts, and the way to the routed experts' width and back.
void add_moe(const model_config& c, int64_t layers, weight_counts& to) {
  const int64_t hidden = c.hidden_size;
  if (c.shared_experts > 0) {
    add_mlp(to, layers, static_cast<int64_t>(c.shared_experts) * c.expert_width, hidden);
  }
  if (c.routed_width > 0) {
    add_product(to, layers, c.routed_width, hidden);
    add_product(to, layers, hidden, c.routed_width);
  }
  to.kept += layers * (c.experts * (hidden + 1) + (c.routed_norm ? c.routed_width : 0));
  to.routed += layers * c.experts * 3LL * c.expert_width * c.expert_dim();
}

}  // namespace

weight_counts count_weights(const model_config& c) {
  const int64_t hidden = c.hidden_size;
  const int64_t layers = c.layer_count();
  const int64_t words = static_cast<int64_t>(c.vocab_size) * hidden;
  weight_counts out;
  out.kept = words + hidden + layers * 2 * hidden;
  if (!c.tie_word_embeddings) add_product(out, 1, c.vocab_size, hidden);
  add_mlp(out, c.dense_layers, c.dense_width, hidden);
  add_kda(c, c.count(layer_kind::kda), out);
  add_mla(c, c.count(layer_kind::mla), out);
  add_moe(c, layers - c.dense_layers, out);
  // A mix is a norm and a projection: two in each layer, and one at the end.
  if (c.residual_block > 0) out.kept += (2 * layers + 1) * 2 * hidden;
  return out;
}

std::int64_t weight_bytes(const model_config& c, weight_format format) {
  using kernels::dtype;
  using kernels::stored_bytes;
  const weight_counts counts = count_weights(c);
  const bool int8 = format == weight_format::int8;
  const bool packed = c.packed_experts || format == weight_format::mxfp4;
  const dtype routed = packed ? dtype::mxfp4 : int8 ? dtype::int8 : dtype::bf16;
  // The head of tied embeddings is narrowed beside them.
  const int64_t head = int8 && c.tie_word_embeddings ? static_cast<int64_t>(c.vocab_size) * c.hidden_size : 0;
  return 2 * counts.kept + stored_bytes(int8 ? dtype::int8 : dtype::bf16, counts.products) +
         stored_bytes(dtype::int8, head) + stored_bytes(routed, counts.routed);
}

std::int64_t activation_bytes(const model_config& c, std::int64_t rows, std::int64_t logit_rows,
                              std::int32_t scalar) {
  const std::int64_t stream = (3LL + c.residual_blocks()) * c.hidden_size;
  const std::int64_t kda = 7LL * c.kda_channels();
  const std::int64_t mla = c.mla_heads * (c.nope_dim + c.rope_dim + 2LL * c.value_dim) + c.latent_width();
  const std::int64_t experts = c.experts + 2LL * c.experts_per_token * c.expert_width + 2LL * c.expert_dim();
  const std::int64_t wide = std::max<std::int64_t>(c.dense_width, c.shared_experts * c.expert_width);
  const std::int64_t row = stream + std::max(kda, mla) + experts + 2 * wide;
  return scalar * (rows * row + logit_rows * (c.vocab_size + c.hidden_size));
}

std::int64_t state_bytes(const model_config& c, const number_formats& formats) {
  const std::int64_t channels = c.kda_channels();
  const std::int64_t tails = 3LL * (c.conv_taps - 1) * channels * formats.tail;
  return c.count(layer_kind::kda) * (channels * c.kda_dim * formats.state + tails);
}

std::int64_t token_bytes(const model_config& c, const number_formats& formats) {
  return static_cast<std::int64_t>(c.count(layer_kind::mla)) * c.latent_width() * formats.latent;
}

}  // namespace weir::engine::plan
