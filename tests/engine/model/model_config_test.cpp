#include "engine/model/model_config.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "tests/support/random_checkpoint.hpp"

namespace {

using namespace weir::engine;
using model::parse_model_config;

// The random checkpoints' configuration with one piece of text replaced.
std::string changed(const std::string& from, const std::string& to,
                    const weir::tests::checkpoint_spec& spec = {}) {
  std::string text = weir::tests::config_json(spec);
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("the published layout is read", "[model_config]") {
  const auto config = model::load_model_config(std::string(WEIR_SOURCE_DIR) + "/tests/data/kimi-linear-a");
  REQUIRE(config);
  using enum model::layer_kind;
  CHECK(config->layers == std::vector<model::layer_kind>{kda, kda, kda, mla, kda, mla});
  CHECK(config->vocab_size == 512);
  CHECK(config->eos_tokens == std::vector<std::int32_t>{2});
  CHECK(config->rms_norm_eps == 1e-5);
  CHECK(config->count(kda) == 4);
  CHECK(config->latent_width() == 80);
  CHECK(config->kda_channels() == 128);
  CHECK(config->q_lora_rank == 0);
  CHECK(config->routed_scale == 2.446);
  CHECK(config->context_tokens == 4096);
}

TEST_CASE("optional keys have the published defaults", "[model_config]") {
  CHECK(parse_model_config(changed(R"("eos_token_id":0)", R"("eos_token_id":[3,4])"))->eos_tokens.size() ==
        2);
  CHECK(parse_model_config(changed(R"("model_max_length":256)", R"("max_position_embeddings":99)"))
            ->context_tokens == 99);
  CHECK(parse_model_config(changed(R"("moe_renormalize":true,)", ""))->renormalize);
  CHECK(parse_model_config(changed(R"("q_lora_rank":null)", R"("q_lora_rank":12)"))->q_lora_rank == 12);
  CHECK(parse_model_config(changed(R"("first_k_dense_replace":1)", R"("first_k_dense_replace":9)"))
            ->dense_layers == 2);
}

TEST_CASE("what is wrong is named", "[model_config]") {
  struct row {
    const char* from;
    const char* to;
    errc code;
    const char* named;
  };
  const row rows[] = {
      {R"("vocab_size":64)", R"("vocab_size":0)", errc::bad_model, "vocab_size"},
      {R"("vocab_size":64)", R"("vocab_size":-64)", errc::bad_model, "vocab_size"},
      {R"("vocab_size":64)", R"("vocab_size":64.5)", errc::bad_model, "vocab_size"},
      {R"("vocab_size":64)", R"("vocab_size":"64")", errc::bad_model, "vocab_size"},
      {R"("vocab_size":64)", R"("vocab_size":99999999999999999999)", errc::bad_model, "config.json"},
      {R"("vocab_size":64,)", "", errc::bad_model, "vocab_size"},
      {R"("hidden_size":32)", R"("hidden_size":65537)", errc::bad_model, "hidden_size"},
      {R"("num_hidden_layers":2)", R"("num_hidden_layers":3)", errc::bad_model, "layer 3"},
      {R"("num_hidden_layers":2)", R"("num_hidden_layers":1)", errc::bad_model, "full_attn_layers"},
      {R"("num_hidden_layers":2)", R"("num_hidden_layers":1000000000)", errc::bad_model, "num_hidden_layers"},
      {R"("kda_layers":[1])", R"("kda_layers":[0])", errc::bad_model, "kda_layers"},
      {R"("kda_layers":[1])", R"("kda_layers":[2])", errc::bad_model, "layer 2"},
      {R"("kda_layers":[1])", R"("kda_layers":{})", errc::bad_model, "kda_layers"},
      {R"("kda_layers":[1])", R"("kda_layers":[1,1,1])", errc::bad_model, "kda_layers"},
      {R"("eos_token_id":0)", R"("eos_token_id":64)", errc::bad_model, "eos_token_id"},
      {R"("eos_token_id":0)", R"("eos_token_id":null)", errc::bad_model, "eos_token_id"},
      {R"("rms_norm_eps":0.000010)", R"("rms_norm_eps":-1)", errc::bad_model, "rms_norm_eps"},
      {R"("model_max_length":256,)", "", errc::bad_model, "model_max_length"},
      {R"("num_experts_per_token":2)", R"("num_experts_per_token":5)", errc::bad_model,
       "num_experts_per_token"},
      {R"("num_shared_experts":1)", R"("num_shared_experts":9)", errc::bad_model, "num_shared_experts"},
      {R"("short_conv_kernel_size":4)", R"("short_conv_kernel_size":17)", errc::bad_model,
       "short_conv_kernel_size"},
      {R"("head_dim":16)", R"("head_dim":513)", errc::bad_model, "head_dim"},
      {R"("moe_renormalize":true)", R"("moe_renormalize":"yes")", errc::bad_model, "moe_renormalize"},
      {R"("linear_attn_config")", R"("linear_attn")", errc::bad_model, "linear_attn_config"},
      {R"("hidden_act":"silu")", R"("hidden_act":"gelu")", errc::unsupported, "hidden_act"},
      {R"("hidden_act":"silu")", R"("hidden_act":"situ")", errc::bad_model, "activation_situ_beta"},
      {R"("hidden_act":"silu")", R"("hidden_act":"silu","quantization_config":{})", errc::unsupported,
       "quantization_config"},
      {R"("hidden_act":"silu")", R"("hidden_act":"silu","routed_expert_hidden_size":9)", errc::bad_model,
       "latent_moe_use_norm"},
      {R"("hidden_act":"silu")", R"("hidden_act":"silu","latent_moe_use_norm":true)", errc::bad_model,
       "routed_expert_hidden_size"},
      {R"("hidden_act":"silu")", R"("hidden_act":"silu","gate_lower_bound":-5.0)", errc::unsupported,
       "gate_lower_bound"},
      {R"("hidden_act":"silu")", R"("hidden_act":"silu","text_config":{})", errc::unsupported, "text_config"},
      {R"("model_type":"kimi_linear")", R"("model_type":"kimi_k3")", errc::unsupported, "architectures"},
      {R"("model_type":"kimi_linear")", R"("model_type":"kimi_k2")", errc::unsupported, "model_type"},
      {"KimiLinearForCausalLM", "LlamaForCausalLM", errc::unsupported, "architectures"},
      {R"("mla_use_nope":true)", R"("mla_use_nope":false)", errc::unsupported, "mla_use_nope"},
      {R"("moe_layer_freq":1)", R"("moe_layer_freq":2)", errc::unsupported, "moe_layer_freq"},
      {R"("num_expert_group":1)", R"("num_expert_group":4)", errc::unsupported, "num_expert_group"},
      {R"("num_key_value_heads":2)", R"("num_key_value_heads":1)", errc::unsupported, "num_key_value_heads"},
      {R"("sigmoid")", R"("softmax")", errc::unsupported, "moe_router_activation_func"},
  };
  for (const row& r : rows) {
    const auto config = parse_model_config(changed(r.from, r.to));
    INFO(r.to << ": " << (config ? "accepted" : config.error().detail));
    REQUIRE_FALSE(config);
    CHECK(config.error().code == r.code);
    CHECK(config.error().detail.find(r.named) != std::string::npos);
  }
}

TEST_CASE("Kimi K3's nested layout is read", "[model_config]") {
  const auto config = model::load_model_config(std::string(WEIR_SOURCE_DIR) + "/tests/data/kimi-k3-a");
  INFO((config ? std::string() : config.error().detail));
  REQUIRE(config);
  using enum model::layer_kind;
  CHECK(config->architecture == "KimiK3ForConditionalGeneration");
  CHECK(config->nested);
  CHECK(config->layers == std::vector<model::layer_kind>{kda, kda, kda, mla, kda, mla, mla});
  CHECK(config->q_lora_rank == 48);
  CHECK(config->mla_output_gate);
  CHECK(config->full_rank_gate);
  CHECK(config->gate_lower_bound == -5.0);
  CHECK(config->situ.beta == 4.0);
  CHECK(config->situ.linear_beta == 25.0);
  CHECK(config->routed_width == 64);
  CHECK(config->expert_dim() == 64);
  CHECK(config->routed_norm);
  CHECK(config->packed_experts);
  CHECK(config->shared_experts == 2);
  CHECK(config->residual_block == 3);
  CHECK(config->residual_blocks() == 3);
  CHECK(config->context_tokens == 4096);
  CHECK(config->eos_tokens == std::vector<std::int32_t>{2});
}

TEST_CASE("Kimi K3's features stand alone", "[model_config]") {
  weir::tests::checkpoint_spec flat = weir::tests::k3_spec();
  flat.nested = false;
  const auto config = parse_model_config(weir::tests::config_json(flat));
  REQUIRE(config);
  CHECK_FALSE(config->nested);
  CHECK(config->packed_experts);
  weir::tests::checkpoint_spec nested;
  nested.nested = true;
  const auto plain = parse_model_config(weir::tests::config_json(nested));
  REQUIRE(plain);
  CHECK(plain->nested);
  CHECK_FALSE(plain->packed_experts);
  CHECK_FALSE(plain->situ.bounded());
  CHECK(plain->residual_blocks() == 0);
}

TEST_CASE("stop tokens of the nested layout may stand outside", "[model_config]") {
  const std::string from = R"("model_type":"kimi_k3",)";
  std::string text = changed(from, R"("eos_token_id":7,)" + from, weir::tests::k3_spec());
  CHECK(parse_model_config(text)->eos_tokens == std::vector<std::int32_t>{0});  // the text model's come first
  const std::string inner = R"("eos_token_id":0,)";
  text.erase(text.find(inner), inner.size());
  CHECK(parse_model_config(text)->eos_tokens == std::vector<std::int32_t>{7});
}

TEST_CASE("what is wrong in Kimi K3's configuration is named", "[model_config]") {
  struct row {
    const char* from;
    const char* to;
    errc code;
    const char* named;
  };
  const row rows[] = {
      {R"("text_config":)", R"("text":)", errc::bad_model, "text_config"},
      {R"("text_config":{)", R"("text_config":[],"was":{)", errc::bad_model, "text_config"},
      {"KimiK3ForConditionalGeneration", "KimiK2ForConditionalGeneration", errc::unsupported,
       "architectures"},
      {"KimiLinearForCausalLM", "LlamaForCausalLM", errc::unsupported, "text_config"},
      {R"("model_type":"kimi_linear")", R"("model_type":"kimi_k3")", errc::unsupported, "model_type"},
      {R"("model_type":"kimi_k3")", R"("model_type":"kimi_k3","quantization_config":{"a":1})",
       errc::unsupported, "quantization_config"},
      {R"("vocab_size":64)", R"("vocab_size":0)", errc::bad_model, "text_config: \"vocab_size\""},
      {R"("activation_situ_beta":4.000000)", R"("activation_situ_beta":0)", errc::bad_model,
       "activation_situ_beta"},
      {R"("activation_situ_beta":4.000000)", R"("activation_situ_beta":"4")", errc::bad_model,
       "activation_situ_beta"},
      {R"(,"activation_situ_linear_beta":25.000000)", "", errc::bad_model, "activation_situ_linear_beta"},
      {R"("gate_lower_bound":-5.000000)", R"("gate_lower_bound":5)", errc::bad_model, "gate_lower_bound"},
      {R"("gate_lower_bound":-5.000000)", R"("gate_lower_bound":0.0)", errc::bad_model, "gate_lower_bound"},
      {R"("gate_lower_bound":-5.000000)", R"("gate_lower_bound":-1e300)", errc::bad_model,
       "gate_lower_bound"},
      {R"("use_full_rank_gate":true)", R"("use_full_rank_gate":1)", errc::bad_model, "use_full_rank_gate"},
      {R"("mla_use_output_gate":true)", R"("mla_use_output_gate":"yes")", errc::bad_model,
       "mla_use_output_gate"},
      {R"("routed_expert_hidden_size":32)", R"("routed_expert_hidden_size":0)", errc::bad_model,
       "routed_expert_hidden_size"},
      {R"("routed_expert_hidden_size":32)", R"("routed_expert_hidden_size":1000000)", errc::bad_model,
       "routed_expert_hidden_size"},
      {R"("routed_expert_hidden_size":32)", R"("routed_expert_hidden_size":48)", errc::bad_model,
       "routed_expert_hidden_size"},
      {R"("moe_intermediate_size":32)", R"("moe_intermediate_size":33)", errc::bad_model,
       "moe_intermediate_size"},
      {R"("attn_res_block_size":3)", R"("attn_res_block_size":0)", errc::bad_model, "attn_res_block_size"},
      {R"("attn_res_block_size":3)", R"("attn_res_block_size":4096)", errc::bad_model, "attn_res_block_size"},
      {R"("q_lora_rank":12)", R"("q_lora_rank":-1)", errc::bad_model, "q_lora_rank"},
      {R"("quant_method":"compressed-tensors")", R"("quant_method":"gptq")", errc::unsupported,
       "quant_method"},
      {R"("format":"mxfp4-pack-quantized")", R"("format":"nvfp4-pack-quantized")", errc::unsupported,
       "format"},
      {R"("num_bits":4)", R"("num_bits":8)", errc::unsupported, "num_bits"},
      {R"("type":"float")", R"("type":"int")", errc::unsupported, "type"},
      {R"("strategy":"group")", R"("strategy":"channel")", errc::unsupported, "strategy"},
      {R"("group_size":32)", R"("group_size":16)", errc::unsupported, "group_size"},
      {R"("symmetric":true)", R"("symmetric":false)", errc::unsupported, "symmetric"},
      {R"("scale_dtype":"torch.uint8")", R"("scale_dtype":"torch.float8_e4m3fn")", errc::unsupported,
       "scale_dtype"},
      {R"("input_activations":null)", R"("input_activations":{"num_bits":8})", errc::unsupported,
       "input_activations"},
      {R"("targets":["Linear"])", R"("targets":["Linear","Conv"])", errc::unsupported, "targets"},
      {R"("config_groups":{)", R"("config_groups":{"group_1":{},)", errc::unsupported, "config_groups"},
      {R"("ignore":["lm_head"])", R"("ignore":[7])", errc::bad_model, "ignore"},
      {R"("ignore":["lm_head"])", R"("kv_cache_scheme":{"num_bits":8})", errc::unsupported,
       "kv_cache_scheme"},
  };
  for (const row& r : rows) {
    const auto config = parse_model_config(changed(r.from, r.to, weir::tests::k3_spec()));
    INFO(r.to << ": " << (config ? "accepted" : config.error().detail));
    REQUIRE_FALSE(config);
    CHECK(config.error().code == r.code);
    CHECK(config.error().detail.find(r.named) != std::string::npos);
  }
}

TEST_CASE("residual blocks are few enough for the kernels", "[model_config]") {
  weir::tests::checkpoint_spec spec;
  spec.residual_block = 1;
  spec.is_kda.assign(63, true);
  CHECK(parse_model_config(weir::tests::config_json(spec)));
  spec.is_kda.assign(64, true);
  const auto config = parse_model_config(weir::tests::config_json(spec));
  REQUIRE_FALSE(config);
  CHECK(config.error().detail.find("attn_res_block_size") != std::string::npos);
}

TEST_CASE("what is no configuration at all is refused", "[model_config]") {
  const std::string deep(100000, '[');
  for (const std::string& text :
       {std::string(), std::string("null"), std::string("[]"), std::string("{"), std::string("\xff"), deep,
        std::string(model::k_config_bytes_max + 1, ' ')}) {
    INFO(text.substr(0, 20));
    CHECK_FALSE(parse_model_config(text));
  }
}
