// The random checkpoints' config.json, in either published layout.
#include "tests/support/random_checkpoint.hpp"

namespace weir::tests {

namespace {

std::string list_layers(const checkpoint_spec& spec, bool kda) {
  std::string out;
  for (int i = 0; i < spec.layers(); ++i) {
    if (spec.is_kda[static_cast<std::size_t>(i)] == kda)
      out += (out.empty() ? "" : ",") + std::to_string(i + 1);
  }
  return "[" + out + "]";
}

constexpr const char* k_packed_scheme =
    R"({"quant_method":"compressed-tensors","format":"mxfp4-pack-quantized","config_groups":{"group_0":)"
    R"({"targets":["Linear"],"weights":{"num_bits":4,"type":"float","strategy":"group","group_size":32,)"
    R"("symmetric":true,"scale_dtype":"torch.uint8"},"input_activations":null}},"ignore":["lm_head"]})";

}  // namespace

std::string config_json(const checkpoint_spec& s) {
  const auto field = [](const char* key, const std::string& value) {
    return ",\"" + std::string(key) + "\":" + value;
  };
  const auto number = [&field](const char* key, int value) { return field(key, std::to_string(value)); };
  const auto flag = [&field](const char* key, bool value) { return field(key, value ? "true" : "false"); };
  std::string out = R"({"architectures":["KimiLinearForCausalLM"],"model_type":"kimi_linear","hidden_act":)";
  out += s.situ_beta > 0.0 ? "\"situ\"" : "\"silu\"";
  out += number("vocab_size", s.vocab) + number("hidden_size", s.hidden) +
         number("num_hidden_layers", s.layers());
  out += number("eos_token_id", 0) + number("model_max_length", s.context) +
         field("rms_norm_eps", std::to_string(s.eps));
  out += flag("tie_word_embeddings", s.tie) + flag("mla_use_nope", true);
  out += number("num_attention_heads", s.mla_heads) + number("num_key_value_heads", s.mla_heads);
  out += field("q_lora_rank", s.q_rank > 0 ? std::to_string(s.q_rank) : "null") +
         number("kv_lora_rank", s.kv_rank);
  out +=
      number("qk_nope_head_dim", s.nope) + number("qk_rope_head_dim", s.rope) + number("v_head_dim", s.value);
  out += number("intermediate_size", s.dense_width) + number("first_k_dense_replace", s.dense_layers);
  out += number("moe_layer_freq", 1) + number("num_experts", s.experts) +
         number("num_experts_per_token", s.per_token);
  out += number("num_shared_experts", s.shared) + number("moe_intermediate_size", s.expert_width);
  out += flag("moe_renormalize", s.renormalize) + field("moe_router_activation_func", "\"sigmoid\"");
  out += flag("use_grouped_topk", true) + number("num_expert_group", 1) + number("topk_group", 1);
  out += field("routed_scaling_factor", std::to_string(s.scale)) + ",\"linear_attn_config\":{\"head_dim\":";
  out +=
      std::to_string(s.kda_dim) + number("num_heads", s.kda_heads) + number("short_conv_kernel_size", s.taps);
  out += field("kda_layers", list_layers(s, true)) + field("full_attn_layers", list_layers(s, false));
  if (s.full_rank_gate) out += flag("use_full_rank_gate", true);
  if (s.gate_bound < 0.0) out += field("gate_lower_bound", std::to_string(s.gate_bound));
  out += "}";
  if (s.mla_gate) out += flag("mla_use_output_gate", true);
  if (s.situ_beta > 0.0) {
    out += field("activation_situ_beta", std::to_string(s.situ_beta));
    out += field("activation_situ_linear_beta", std::to_string(s.situ_linear));
  }
  if (s.routed > 0)
    out += number("routed_expert_hidden_size", s.routed) + flag("latent_moe_use_norm", s.routed_norm);
  if (s.residual_block > 0) out += number("attn_res_block_size", s.residual_block);
  if (s.packed) out += field("quantization_config", k_packed_scheme);
  out += "}";
  if (!s.nested) return out;
  return R"({"architectures":["KimiK3ForConditionalGeneration"],"model_type":"kimi_k3","text_config":)" +
         out + R"(,"vision_config":{"model_type":"moonvit"}})";
}

}  // namespace weir::tests
