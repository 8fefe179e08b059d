#include "engine/model/model_config.hpp"

#include <algorithm>
#include <optional>

#include "engine/model/json_fields.hpp"
#include "engine/model/mapped_file.hpp"
#include "engine/model/quantization.hpp"

namespace weir::engine::model {

namespace {

static_assert(k_head_dim_max <= kernels::k_head_dim_max);

constexpr std::size_t k_architectures_max = 8;
constexpr std::string_view k_flat_architecture = "KimiLinearForCausalLM";
constexpr std::string_view k_nested_architecture = "KimiK3ForConditionalGeneration";
constexpr double k_situ_beta_min = 1e-3;
constexpr double k_situ_beta_max = 1e6;
constexpr double k_gate_bound_min = -1e3;
constexpr double k_gate_bound_max = -1e-3;

// Whether the layout is the nested one. The nested object's own model_type and architectures are those of the
// flat layout.
bool read_layout(json_fields& top, model_config& config) {
  const std::vector<std::string> names = top.texts("architectures", k_architectures_max);
  const std::string type = top.text("model_type", "kimi_linear");
  config.nested = type == "kimi_k3";
  if (!config.nested && type != "kimi_linear")
    top.refuse("model_type", "is " + type + "; this build runs kimi_linear and kimi_k3");
  if (!config.nested && top.has("text_config"))
    top.refuse("text_config", "is known for the model_type kimi_k3 only");
  const std::string_view wanted = config.nested ? k_nested_architecture : k_flat_architecture;
  config.architecture = names.empty() ? std::string(wanted) : names.front();
  if (config.architecture != wanted) {
    top.refuse("architectures", "is " + config.architecture + "; this build runs " + std::string(wanted));
  }
  return config.nested;
}

void check_inner_layout(json_fields& text) {
  text.expect_text("model_type", "kimi_linear", "kimi_linear");
  const std::vector<std::string> names = text.texts("architectures", k_architectures_max);
  if (!names.empty() && names.front() != k_flat_architecture)
    text.refuse("architectures", "is " + names.front() + "; this build runs KimiLinearForCausalLM");
}

// Features that exist elsewhere: refused by name rather than computed wrongly.
void refuse_unsupported(json_fields& fields) {
  for (const std::string_view key : {"gate_lower_bound", "use_full_rank_gate"}) {
    if (fields.is_set(key)) fields.refuse(key, "is known inside \"linear_attn_config\" only");
  }
  fields.expect_text("moe_router_activation_func", "sigmoid", "sigmoid");
  fields.expect_text("topk_method", "noaux_tc", "noaux_tc");
  if (!fields.boolean("mla_use_nope", false))
    fields.refuse("mla_use_nope", "must be true: rotary positions are not run");
  for (const std::string_view key : {"num_expert_group", "topk_group", "moe_layer_freq"}) {
    if (fields.integer(key, 1, k_experts_max, 1) != 1) fields.refuse(key, "must be 1");
  }
}

void read_activation(json_fields& fields, model_config& config) {
  const std::string act = fields.text("hidden_act", "silu");
  if (act == "silu") return;
  if (act != "situ") return fields.refuse("hidden_act", "is " + act + "; this build runs silu and situ");
  config.situ.beta = fields.number("activation_situ_beta", k_situ_beta_min, k_situ_beta_max);
  config.situ.linear_beta = fields.number("activation_situ_linear_beta", k_situ_beta_min, k_situ_beta_max);
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
  config.full_rank_gate = linear.boolean("use_full_rank_gate", false);
  if (linear.has("gate_lower_bound")) {
    config.gate_lower_bound = linear.number("gate_lower_bound", k_gate_bound_min, k_gate_bound_max);
  }
  config.mla_heads = fields.integer("num_attention_heads", 1, k_heads_max);
  if (fields.integer("num_key_value_heads", 1, k_heads_max, config.mla_heads) != config.mla_heads) {
    fields.refuse("num_key_value_heads", "must equal \"num_attention_heads\"");
  }
  config.q_lora_rank = fields.integer("q_lora_rank", 0, k_rank_max, 0);
  config.kv_lora_rank = fields.integer("kv_lora_rank", 1, k_rank_max);
  config.nope_dim = fields.integer("qk_nope_head_dim", 1, k_head_dim_max);
  config.rope_dim = fields.integer("qk_rope_head_dim", 0, k_head_dim_max);
  config.value_dim = fields.integer("v_head_dim", 1, k_head_dim_max);
  config.mla_output_gate = fields.boolean("mla_use_output_gate", false);
}

// Routed experts that work on a narrower vector than the layer's.
void read_routed_width(json_fields& fields, model_config& config) {
  config.routed_width = fields.integer("routed_expert_hidden_size", 1, k_hidden_max, 0);
  config.routed_norm = fields.boolean("latent_moe_use_norm", false);
  if (config.routed_width > 0 && !fields.has("latent_moe_use_norm"))
    fields.reject(errc::bad_model, "\"latent_moe_use_norm\" is missing");
  if (config.routed_width == 0 && config.routed_norm)
    fields.reject(errc::bad_model, "\"routed_expert_hidden_size\" is missing");
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
  read_routed_width(fields, config);
  config.renormalize = fields.boolean("moe_renormalize", true);
  config.routed_scale = fields.number("routed_scaling_factor", 1e-6, 1e6, 1.0);
}

void read_residuals(json_fields& fields, model_config& config) {
  config.residual_block = fields.integer("attn_res_block_size", 1, k_layers_max, 0);
  if (config.residual_blocks() >= kernels::k_residual_sources_max) {
    fields.reject(errc::bad_model, "\"attn_res_block_size\" cuts the layers into more than " +
                                       std::to_string(kernels::k_residual_sources_max - 1) + " blocks");
  }
}

// `top` is the outer object, or `fields` again.
void read_text(json_fields& fields, json_fields& top, model_config& config) {
  refuse_unsupported(fields);
  config.vocab_size = fields.integer("vocab_size", 1, k_vocab_max);
  config.hidden_size = fields.integer("hidden_size", 1, k_hidden_max);
  config.rms_norm_eps = fields.number("rms_norm_eps", 0.0, 1.0);
  config.tie_word_embeddings =
      fields.boolean("tie_word_embeddings", top.boolean("tie_word_embeddings", false));
  json_fields& stops = fields.has("eos_token_id") ? fields : top;
  config.eos_tokens = stops.integers("eos_token_id", 0, config.vocab_size - 1, k_eos_tokens_max);
  if (config.eos_tokens.empty()) fields.reject(errc::bad_model, "\"eos_token_id\" is missing");
  const std::int32_t positions = fields.integer("max_position_embeddings", 2, k_context_max, 0);
  config.context_tokens = fields.integer("model_max_length", 2, k_context_max,
                                         positions > 0 ? std::optional(positions) : std::nullopt);
  read_activation(fields, config);
  if (auto linear = fields.object("linear_attn_config")) {
    read_layers(fields, *linear, config);
    read_attention(fields, *linear, config);
    fields.adopt(*linear);
    read_feed_forward(fields, config);
    read_residuals(fields, config);
    read_quantization(fields, config);
  }
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
  json_fields top(root, "config.json");
  model_config config;
  if (!read_layout(top, config)) {
    read_text(top, top, config);
  } else {
    if (top.has("quantization_config"))
      top.refuse("quantization_config", "is known inside \"text_config\" only");
    if (auto text = top.object("text_config")) {
      check_inner_layout(*text);
      read_text(*text, top, config);
      top.adopt(*text);
    }
  }
  if (top.fault()) return std::unexpected(*top.fault());
  return config;
}

result<model_config> load_model_config(const std::filesystem::path& dir) {
  auto text = read_file(dir / "config.json", k_config_bytes_max);
  if (!text) return std::unexpected(text.error());
  return parse_model_config(*text);
}

}  // namespace weir::engine::model
