#include "engine/model/model_config.hpp"

#include <algorithm>
#include <optional>

#include "engine/model/json_fields.hpp"
#include "engine/model/mapped_file.hpp"
#include "kernels/params.hpp"

namespace weir::engine::model {

namespace {

static_assert(k_head_dim_max <= kernels::k_head_dim_max);

constexpr std::size_t k_architectures_max = 8;

void refuse(json_fields& fields, std::string_view key, std::string_view reason) {
  fields.reject(errc::unsupported, "\"" + std::string(key) + "\" " + std::string(reason));
}

void read_architecture(json_fields& fields, model_config& config) {
  const std::vector<std::string> names = fields.texts("architectures", k_architectures_max);
  const std::string type = fields.text("model_type", "kimi_linear");
  if (fields.is_set("text_config"))
    refuse(fields, "text_config", "(a nested, multimodal layout) is not run by this build");
  if (type != "kimi_linear") refuse(fields, "model_type", "is " + type + "; this build runs kimi_linear");
  config.architecture = names.empty() ? "KimiLinearForCausalLM" : names.front();
  if (config.architecture != "KimiLinearForCausalLM") {
    refuse(fields, "architectures", "is " + config.architecture + "; this build runs KimiLinearForCausalLM");
  }
}

// Features of newer checkpoints: refused by name rather than computed wrongly.
void refuse_unsupported(json_fields& fields) {
  constexpr std::string_view k_absent[] = {"attn_res_block_size",       "gate_lower_bound",
                                           "use_full_rank_gate",        "mla_use_output_gate",
                                           "routed_expert_hidden_size", "quantization_config"};
  for (const std::string_view key : k_absent) {
    if (fields.is_set(key)) refuse(fields, key, "is not supported by this build");
  }
  const std::string act = fields.text("hidden_act", "silu");
  if (act != "silu") refuse(fields, "hidden_act", "is " + act + "; this build runs silu");
  const std::string router = fields.text("moe_router_activation_func", "sigmoid");
  if (router != "sigmoid")
    refuse(fields, "moe_router_activation_func", "is " + router + "; this build runs sigmoid");
  if (!fields.boolean("mla_use_nope", false))
    refuse(fields, "mla_use_nope", "must be true: rotary positions are not run");
  for (const std::string_view key : {"num_expert_group", "topk_group", "moe_layer_freq"}) {
    if (fields.integer(key, 1, k_experts_max, 1) != 1) refuse(fields, key, "must be 1");
  }
}

void read_layers(json_fields& fields, json_fields& linear, model_config& config) {
  const std::int32_t count = fields.integer("num_hidden_layers", 1, k_layers_max);
  const auto entries = static_cast<std::size_t>(count);
  std::vector<std::optional<layer_kind>> kinds(entries);
  // The published lists count layers from 1.
  const auto mark = [&](std::string_view key, layer_kind kind) {
    for (const std::int32_t layer : linear.integers(key, 1, count, entries)) {
      auto& place = kinds[static_cast<std::size_t>(layer - 1)];
      if (place) {
        linear.reject(errc::bad_model, "layer " + std::to_string(layer) + " is listed twice, again in \"" +
                                           std::string(key) + "\"");
      }
      place = kind;
    }
  };
  mark("kda_layers", layer_kind::kda);
  mark("full_attn_layers", layer_kind::mla);
  for (std::size_t i = 0; i < entries; ++i) {
    if (!kinds[i]) {
      linear.reject(errc::bad_model, "layer " + std::to_string(i + 1) +
                                         " is neither in \"kda_layers\" nor in \"full_attn_layers\"");
    }
    config.layers.push_back(kinds[i].value_or(layer_kind::kda));
  }
}

void read_attention(json_fields& fields, json_fields& linear, model_config& config) {
  config.kda_heads = linear.integer("num_heads", 1, k_heads_max);
  config.kda_dim = linear.integer("head_dim", 1, k_head_dim_max);
  config.conv_taps = linear.integer("short_conv_kernel_size", 1, kernels::k_conv_taps_max);
  for (const std::string_view key : {"gate_lower_bound", "use_full_rank_gate"}) {
    if (linear.is_set(key)) refuse(linear, key, "is not supported by this build");
  }
  config.mla_heads = fields.integer("num_attention_heads", 1, k_heads_max);
  if (fields.integer("num_key_value_heads", 1, k_heads_max, config.mla_heads) != config.mla_heads) {
    refuse(fields, "num_key_value_heads", "must equal \"num_attention_heads\"");
  }
  config.q_lora_rank = fields.integer("q_lora_rank", 0, k_rank_max, 0);
  config.kv_lora_rank = fields.integer("kv_lora_rank", 1, k_rank_max);
  config.nope_dim = fields.integer("qk_nope_head_dim", 1, k_head_dim_max);
  config.rope_dim = fields.integer("qk_rope_head_dim", 0, k_head_dim_max);
  config.value_dim = fields.integer("v_head_dim", 1, k_head_dim_max);
}

void read_feed_forward(json_fields& fields, model_config& config) {
  const std::int32_t layers = std::max(config.layer_count(), 1);
  config.dense_layers = std::min(fields.integer("first_k_dense_replace", 0, k_layers_max, 0), layers);
  const bool has_dense = config.dense_layers > 0;
  const bool has_experts = config.dense_layers < layers;
  const auto unless = [](bool needed, std::int32_t fallback) {
    return needed ? std::optional<std::int32_t>() : std::optional(fallback);
  };
  config.dense_width = fields.integer("intermediate_size", 1, k_width_max, unless(has_dense, 1));
  if (!has_experts) return;
  config.experts = fields.integer("num_experts", 1, k_experts_max);
  const std::int32_t chosen_max = std::min(config.experts, kernels::k_experts_per_token_max);
  config.experts_per_token = fields.integer("num_experts_per_token", 1, chosen_max);
  config.shared_experts = fields.integer("num_shared_experts", 0, k_shared_experts_max, 0);
  config.expert_width = fields.integer("moe_intermediate_size", 1, k_width_max);
  config.renormalize = fields.boolean("moe_renormalize", true);
  config.routed_scale = fields.number("routed_scaling_factor", 1e-6, 1e6, 1.0);
}

}  // namespace

std::int32_t model_config::count(layer_kind kind) const noexcept {
  return static_cast<std::int32_t>(std::count(layers.begin(), layers.end(), kind));
}

result<model_config> parse_model_config(std::string_view json) {
  if (json.size() > k_config_bytes_max) return fail(errc::bad_model, "config.json is larger than 1 MiB");
  simdjson::dom::parser parser;
  simdjson::dom::object root;
  const simdjson::error_code code = parser.parse(json.data(), json.size()).get(root);
  if (code != simdjson::SUCCESS) {
    return fail(errc::bad_model,
                "config.json is not a JSON object: " + std::string(simdjson::error_message(code)));
  }
  json_fields fields(root, "config.json");
  model_config config;
  read_architecture(fields, config);
  refuse_unsupported(fields);
  config.vocab_size = fields.integer("vocab_size", 1, k_vocab_max);
  config.hidden_size = fields.integer("hidden_size", 1, k_hidden_max);
  config.rms_norm_eps = fields.number("rms_norm_eps", 0.0, 1.0);
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings", false);
  config.eos_tokens = fields.integers("eos_token_id", 0, config.vocab_size - 1, k_eos_tokens_max);
  if (config.eos_tokens.empty()) fields.reject(errc::bad_model, "\"eos_token_id\" is missing");
  const std::int32_t positions = fields.integer("max_position_embeddings", 2, k_context_max, 0);
  config.context_tokens = fields.integer("model_max_length", 2, k_context_max,
                                         positions > 0 ? std::optional(positions) : std::nullopt);
  if (auto linear = fields.object("linear_attn_config")) {
    read_layers(fields, *linear, config);
    read_attention(fields, *linear, config);
    read_feed_forward(fields, config);
    if (linear->fault() && !fields.fault()) return std::unexpected(*linear->fault());
  }
  if (fields.fault()) return std::unexpected(*fields.fault());
  return config;
}

result<model_config> load_model_config(const std::filesystem::path& dir) {
  auto text = read_file(dir / "config.json", k_config_bytes_max);
  if (!text) return std::unexpected(text.error());
  return parse_model_config(*text);
}

}  // namespace weir::engine::model
