#include "engine/model/model_config.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "tests/support/random_checkpoint.hpp"

namespace {

using namespace weir::engine;
using model::parse_model_config;

// The random checkpoints' configuration with one piece of text replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = weir::tests::config_json({});
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
      {R"("hidden_act":"silu")", R"("hidden_act":"situ")", errc::unsupported, "hidden_act"},
      {R"("hidden_act":"silu")", R"("hidden_act":"silu","attn_res_block_size":12)", errc::unsupported,
       "attn_res_block_size"},
      {R"("hidden_act":"silu")", R"("hidden_act":"silu","quantization_config":{})", errc::unsupported,
       "quantization_config"},
      {R"("hidden_act":"silu")", R"("hidden_act":"silu","mla_use_output_gate":true)", errc::unsupported,
       "mla_use_output_gate"},
      {R"("hidden_act":"silu")", R"("hidden_act":"silu","routed_expert_hidden_size":9)", errc::unsupported,
       "routed_expert"},
      {R"("hidden_act":"silu")", R"("hidden_act":"silu","text_config":{})", errc::unsupported, "text_config"},
      {R"("head_dim":16)", R"("head_dim":16,"gate_lower_bound":-5.0)", errc::unsupported, "gate_lower_bound"},
      {R"("head_dim":16)", R"("head_dim":16,"use_full_rank_gate":true)", errc::unsupported,
       "use_full_rank_gate"},
      {R"("model_type":"kimi_linear")", R"("model_type":"kimi_k3")", errc::unsupported, "model_type"},
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

TEST_CASE("what is no configuration at all is refused", "[model_config]") {
  const std::string deep(100000, '[');
  for (const std::string& text :
       {std::string(), std::string("null"), std::string("[]"), std::string("{"), std::string("\xff"), deep,
        std::string(model::k_config_bytes_max + 1, ' ')}) {
    INFO(text.substr(0, 20));
    CHECK_FALSE(parse_model_config(text));
  }
}
