#include "engine/plan/model_sizes.hpp"

#include <algorithm>

namespace weir::engine::plan {

using model::layer_kind;
using model::model_config;

namespace {

// Of MXFP4: 32 nibbles and a scale.
constexpr std::int64_t k_packed_group = 32;
constexpr std::int64_t k_packed_group_bytes = 17;

std::int64_t kda_parameters(const model_config& c) {
  const std::int64_t hidden = c.hidden_size;
  const std::int64_t channels = c.kda_channels();
  const std::int64_t low_rank = c.kda_dim * hidden + channels * c.kda_dim;
  const std::int64_t inputs = 3 * channels * (hidden + c.conv_taps);
  const std::int64_t decay = low_rank + channels + c.kda_heads;
  const std::int64_t gate = c.full_rank_gate ? channels * hidden : low_rank;
  return inputs + decay + c.kda_heads * hidden + gate + c.kda_dim + channels * hidden;
}

std::int64_t mla_parameters(const model_config& c) {
  const std::int64_t hidden = c.hidden_size;
  const std::int64_t heads = c.mla_heads;
  const std::int64_t query_rows = heads * (c.nope_dim + c.rope_dim);
  const std::int64_t rank = c.q_lora_rank;
  const std::int64_t query = rank > 0 ? rank * (hidden + 1) + query_rows * rank : query_rows * hidden;
  const std::int64_t latent = c.latent_width() * hidden + c.kv_lora_rank;
  const std::int64_t up = heads * (c.nope_dim + c.value_dim) * c.kv_lora_rank;
  const std::int64_t out = heads * c.value_dim * hidden;
  return query + latent + up + (c.mla_output_gate ? 2 : 1) * out;
}

// Router, shared experts, and the way to the routed experts' width and back.
std::int64_t moe_trunk_parameters(const model_config& c) {
  const std::int64_t hidden = c.hidden_size;
  const std::int64_t shared = 3LL * c.shared_experts * c.expert_width * hidden;
  const std::int64_t narrow = c.routed_width > 0 ? 2LL * c.routed_width * hidden : 0;
  return c.experts * (hidden + 1) + shared + narrow + (c.routed_norm ? c.routed_width : 0);
}

}  // namespace

weight_counts count_weights(const model_config& c) {
  const std::int64_t hidden = c.hidden_size;
  const std::int64_t layers = c.layer_count();
  const std::int64_t sparse = layers - c.dense_layers;
  weight_counts out;
  out.trunk = (c.tie_word_embeddings ? 1 : 2) * static_cast<std::int64_t>(c.vocab_size) * hidden + hidden;
  out.trunk += c.count(layer_kind::kda) * kda_parameters(c) + c.count(layer_kind::mla) * mla_parameters(c);
  out.trunk += layers * 2 * hidden + c.dense_layers * 3LL * c.dense_width * hidden;
  out.trunk += sparse * moe_trunk_parameters(c);
  // A mix is a norm and a projection: two in each layer, and one at the end.
  if (c.residual_block > 0) out.trunk += (2 * layers + 1) * 2 * hidden;
  out.routed = sparse * c.experts * 3LL * c.expert_width * c.expert_dim();
  return out;
}

std::int64_t weight_bytes(const model_config& c) {
  const weight_counts counts = count_weights(c);
  const std::int64_t routed =
      c.packed_experts ? counts.routed / k_packed_group * k_packed_group_bytes : 2 * counts.routed;
  return 2 * counts.trunk + routed;
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
