// The hyper-parameters of config.json, in the published layouts: Kimi-Linear (flat) and Kimi K3 (the same
// keys and more inside "text_config"). Each one is range-checked, the relations between them are checked, so
// that what follows may multiply them without overflow. Each newer feature stands alone: a flat configuration
// may have it, a nested one may lack it. Immutable after parse; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/result.hpp"
#include "kernels/params.hpp"

namespace weir::engine::model {

// Limits of what a configuration may ask for: several times the largest published model, small enough for
// 64-bit products.
inline constexpr std::int32_t k_layers_max = 1024;
inline constexpr std::int32_t k_hidden_max = 1 << 16;
inline constexpr std::int32_t k_vocab_max = 1 << 22;
inline constexpr std::int32_t k_heads_max = 1024;
inline constexpr std::int32_t k_head_dim_max = 512;
inline constexpr std::int32_t k_rank_max = 1 << 14;
inline constexpr std::int32_t k_width_max = 1 << 18;
inline constexpr std::int32_t k_experts_max = 4096;
inline constexpr std::int32_t k_shared_experts_max = 8;
inline constexpr std::int32_t k_context_max = 1 << 24;
inline constexpr std::size_t k_eos_tokens_max = 16;
inline constexpr std::size_t k_config_bytes_max = 1U << 20;

enum class layer_kind : std::uint8_t {
  kda,  // Kimi Delta Attention: a recurrent state per sequence
  mla,  // multi-head latent attention: a latent per token
};

struct model_config {
  std::string architecture;
  bool nested =
      false;  // multimodal: tensors are named language_model.*, those of the vision tower are skipped
  std::int32_t vocab_size = 0;
  std::int32_t hidden_size = 0;
  std::int32_t context_tokens = 0;
  std::vector<std::int32_t> eos_tokens;  // at least one
  double rms_norm_eps = 0.0;
  bool tie_word_embeddings = false;
  std::vector<layer_kind> layers;  // [num_hidden_layers]

  std::int32_t mla_heads = 0;
  std::int32_t q_lora_rank = 0;  // 0: plain q_proj
  std::int32_t kv_lora_rank = 0;
  std::int32_t nope_dim = 0;
  std::int32_t rope_dim = 0;  // the part of the key that heads share; never rotated
  std::int32_t value_dim = 0;
  bool mla_output_gate = false;  // heads are multiplied by sigmoid(W_g x)

  std::int32_t kda_heads = 0;
  std::int32_t kda_dim = 0;
  std::int32_t conv_taps = 0;
  double gate_lower_bound = 0.0;  // below 0: the log decay is this times a sigmoid; 0: unbounded softplus
  bool full_rank_gate = false;    // the output gate is one matrix instead of two of rank kda_dim

  std::int32_t dense_width = 0;
  std::int32_t dense_layers = 0;  // the first ones have a dense feed-forward block, the others experts
  std::int32_t experts = 0;
  std::int32_t experts_per_token = 0;
  std::int32_t shared_experts = 0;
  std::int32_t expert_width = 0;
  std::int32_t routed_width = 0;  // what routed experts read and write; 0: hidden_size
  bool routed_norm = false;       // their sum is normalised before it goes back up
  bool packed_experts = false;    // routed experts are stored in MXFP4
  bool renormalize = true;
  double routed_scale = 1.0;
  kernels::situ_bounds situ;  // of every feed-forward block; zero: silu

  std::int32_t residual_block = 0;  // layers per block of the residual stream; 0: one plain stream

  std::int32_t layer_count() const noexcept { return static_cast<std::int32_t>(layers.size()); }
  std::int32_t count(layer_kind kind) const noexcept;
  std::int32_t kda_channels() const noexcept { return kda_heads * kda_dim; }
  std::int32_t latent_width() const noexcept { return kv_lora_rank + rope_dim; }
  std::int32_t expert_dim() const noexcept { return routed_width > 0 ? routed_width : hidden_size; }
  // Blocks of the residual stream after the last layer.
  std::int32_t residual_blocks() const noexcept {
    return residual_block > 0 ? (layer_count() - 1) / residual_block + 1 : 0;
  }
};

// errc::bad_model names the key; errc::unsupported names the key of a feature that this build does not run.
result<model_config> parse_model_config(std::string_view json);

// Reads DIR/config.json.
result<model_config> load_model_config(const std::filesystem::path& dir);

}  // namespace weir::engine::model
