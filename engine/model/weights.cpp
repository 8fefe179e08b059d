#include "engine/model/weights.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace weir::engine::model {

namespace {

using kernels::dtype;
using shape = std::vector<std::int64_t>;

// Reads tensors by name and keeps the first fault, so that binding reads as a list of names and shapes.
class binder final {
 public:
  // `root` stands before every name.
  binder(model_weights& out, std::string root) : out_(out), root_(std::move(root)) {}

  matrix take_matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
    const auto tensor = take_floating(name, {{rows, cols}}, storage::matrix);
    if (!tensor) return {};
    const dtype type = *float_type(*tensor);
    return {aligned(*tensor, type), type, static_cast<std::int32_t>(rows), static_cast<std::int32_t>(cols)};
  }

  // NAME.weight_packed and NAME.weight_scale. REQUIRES: cols in whole groups.
  matrix take_packed(const std::string& name, std::int64_t rows, std::int64_t cols) {
    const auto codes = take_bytes(name + ".weight_packed", {rows, cols / 2}, storage::codes);
    const auto scales =
        take_bytes(name + ".weight_scale", {rows, cols / kernels::k_mxfp4_group}, storage::scales);
    if (!codes || !scales) return {};
    out_.parameter_count += rows * cols;
    return {codes->data.data(), dtype::mxfp4, static_cast<std::int32_t>(rows),
            static_cast<std::int32_t>(cols), reinterpret_cast<const std::uint8_t*>(scales->data.data())};
  }

  // Any of the accepted shapes; empty after a fault.
  std::vector<float> read_floats(const std::string& name, const std::vector<shape>& accepted) {
    const auto tensor = take_floating(name, accepted, storage::vector);
    if (!tensor) return {};
    const dtype type = *float_type(*tensor);
    std::vector<float> values(tensor->data.size() / kernels::size_bytes(type));
    const void* data = aligned(*tensor, type);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = kernels::load_weight(data, type, i);
    return values;
  }

  floats take_floats(const std::string& name, const std::vector<shape>& accepted) {
    return keep(read_floats(name, accepted));
  }
  floats take_floats(const std::string& name, std::int64_t size) { return take_floats(name, {{size}}); }
  floats keep(std::vector<float> values) { return out_.vectors.emplace_back(std::move(values)); }

  std::optional<tensor_view> peek(const std::string& name) const { return out_.source->find(root_ + name); }
  const std::optional<error>& fault() const noexcept { return fault_; }
  void refuse(const std::string& what) { fault_ = error{errc::unsupported, root_ + what}; }

 private:
  static std::optional<dtype> float_type(const tensor_view& tensor) {
    if (tensor.dtype == "BF16") return dtype::bf16;
    if (tensor.dtype == "F32") return dtype::f32;
    if (tensor.dtype == "F16") return dtype::f16;
    return std::nullopt;
  }

  std::optional<tensor_view> take(const std::string& name, const std::vector<shape>& accepted, storage how) {
    if (fault_) return std::nullopt;
    auto tensor = out_.source->take(root_ + name, accepted.front(), how);
    if (!tensor) {
      fault_ = error{errc::bad_model, "tensor \"" + root_ + name + "\" is missing"};
      return std::nullopt;
    }
    if (std::find(accepted.begin(), accepted.end(), tensor->shape) == accepted.end()) {
      fault_ =
          error{errc::bad_model, "tensor \"" + root_ + name + "\" has shape " + to_string(tensor->shape) +
                                     ", the configuration asks for " + to_string(accepted.front())};
      return std::nullopt;
    }
    out_.weight_bytes += static_cast<std::int64_t>(tensor->data.size());
    return tensor;
  }

  std::optional<tensor_view> refuse_type(const std::string& name, const tensor_view& tensor,
                                         std::string_view wanted) {
    fault_ = error{errc::unsupported, "tensor \"" + root_ + name + "\" is " + tensor.dtype +
                                          "; this build runs " + std::string(wanted)};
    return std::nullopt;
  }

  std::optional<tensor_view> take_floating(const std::string& name, const std::vector<shape>& accepted,
                                           storage how) {
    auto tensor = take(name, accepted, how);
    if (!tensor) return std::nullopt;
    const auto type = float_type(*tensor);
    if (!type) return refuse_type(name, *tensor, "BF16, F16, F32");
    out_.parameter_count += static_cast<std::int64_t>(tensor->data.size() / kernels::size_bytes(*type));
    return tensor;
  }

  std::optional<tensor_view> take_bytes(const std::string& name, const shape& wanted, storage how) {
    auto tensor = take(name, {wanted}, how);
    if (!tensor || tensor->dtype == "U8") return tensor;
    return refuse_type(name, *tensor, "U8 there");
  }

  const void* aligned(const tensor_view& tensor, dtype type) {
    const auto address = reinterpret_cast<std::uintptr_t>(tensor.data.data());
    if (address % kernels::size_bytes(type) == 0) return tensor.data.data();
    auto copy = std::make_unique_for_overwrite<std::byte[]>(tensor.data.size());
    std::memcpy(copy.get(), tensor.data.data(), tensor.data.size());
    return out_.copies.emplace_back(std::move(copy)).get();
  }

  model_weights& out_;
  std::string root_;
  std::optional<error> fault_;
};

// Stored [C, 1, K]; the kernels want all channels of one tap side by side.
floats take_taps(binder& bind, const std::string& name, std::int64_t channels, std::int64_t taps) {
  const std::vector<float> stored = bind.read_floats(name, {{channels, 1, taps}, {channels, taps}});
  std::vector<float> out(stored.size());
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const std::size_t channel = i / static_cast<std::size_t>(taps);
    const std::size_t tap = i % static_cast<std::size_t>(taps);
    out[tap * static_cast<std::size_t>(channels) + channel] = stored[i];
  }
  return bind.keep(std::move(out));
}

// One value per head, stored [1, 1, H, 1] or flat and zero-padded beyond H.
floats take_a_log(binder& bind, const std::string& name, std::int64_t heads) {
  std::vector<shape> accepted{{1, 1, heads, 1}, {heads}};
  const auto tensor = bind.peek(name);
  if (tensor && tensor->shape.size() == 1 && tensor->shape[0] > heads) accepted.push_back(tensor->shape);
  const floats values = bind.take_floats(name, accepted);
  return values.empty() ? values : values.first(static_cast<std::size_t>(heads));
}

kda_weights bind_kda(binder& bind, const model_config& c, const std::string& prefix) {
  const std::int32_t channels = c.kda_channels();
  kda_weights w;
  w.q = bind.take_matrix(prefix + "q_proj.weight", channels, c.hidden_size);
  w.k = bind.take_matrix(prefix + "k_proj.weight", channels, c.hidden_size);
  w.v = bind.take_matrix(prefix + "v_proj.weight", channels, c.hidden_size);
  w.q_conv = take_taps(bind, prefix + "q_conv1d.weight", channels, c.conv_taps);
  w.k_conv = take_taps(bind, prefix + "k_conv1d.weight", channels, c.conv_taps);
  w.v_conv = take_taps(bind, prefix + "v_conv1d.weight", channels, c.conv_taps);
  w.decay_a = bind.take_matrix(prefix + "f_a_proj.weight", c.kda_dim, c.hidden_size);
  w.decay_b = bind.take_matrix(prefix + "f_b_proj.weight", channels, c.kda_dim);
  if (c.full_rank_gate) {
    w.gate = bind.take_matrix(prefix + "g_proj.weight", channels, c.hidden_size);
  } else {
    w.gate_a = bind.take_matrix(prefix + "g_a_proj.weight", c.kda_dim, c.hidden_size);
    w.gate = bind.take_matrix(prefix + "g_b_proj.weight", channels, c.kda_dim);
  }
  w.beta = bind.take_matrix(prefix + "b_proj.weight", c.kda_heads, c.hidden_size);
  w.a_log = take_a_log(bind, prefix + "A_log", c.kda_heads);
  w.dt_bias = bind.take_floats(prefix + "dt_bias", channels);
  w.norm = bind.take_floats(prefix + "o_norm.weight", c.kda_dim);
  w.out = bind.take_matrix(prefix + "o_proj.weight", c.hidden_size, channels);
  return w;
}

mla_weights bind_mla(binder& bind, const model_config& c, const std::string& prefix) {
  mla_weights w;
  const std::int32_t query_rows = c.mla_heads * (c.nope_dim + c.rope_dim);
  if (c.q_lora_rank > 0) {
    w.q_a = bind.take_matrix(prefix + "q_a_proj.weight", c.q_lora_rank, c.hidden_size);
    w.q_a_norm = bind.take_floats(prefix + "q_a_layernorm.weight", c.q_lora_rank);
    w.q = bind.take_matrix(prefix + "q_b_proj.weight", query_rows, c.q_lora_rank);
  } else {
    w.q = bind.take_matrix(prefix + "q_proj.weight", query_rows, c.hidden_size);
  }
  w.kv_a = bind.take_matrix(prefix + "kv_a_proj_with_mqa.weight", c.latent_width(), c.hidden_size);
  w.kv_norm = bind.take_floats(prefix + "kv_a_layernorm.weight", c.kv_lora_rank);
  w.kv_b =
      bind.take_matrix(prefix + "kv_b_proj.weight", c.mla_heads * (c.nope_dim + c.value_dim), c.kv_lora_rank);
  const std::int32_t values = c.mla_heads * c.value_dim;
  if (c.mla_output_gate) w.gate = bind.take_matrix(prefix + "g_proj.weight", values, c.hidden_size);
  w.out = bind.take_matrix(prefix + "o_proj.weight", c.hidden_size, values);
  return w;
}

mlp_weights bind_mlp(binder& bind, const model_config& c, const std::string& prefix, std::int32_t width) {
  return {bind.take_matrix(prefix + "gate_proj.weight", width, c.hidden_size),
          bind.take_matrix(prefix + "up_proj.weight", width, c.hidden_size),
          bind.take_matrix(prefix + "down_proj.weight", c.hidden_size, width)};
}

// Kernels prepare a row of activations once for all experts.
bool one_format(const std::vector<matrix>& all, dtype type) {
  return std::ranges::all_of(all, [type](const matrix& m) { return m.type == type; });
}

moe_weights bind_moe(binder& bind, const model_config& c, const std::string& prefix) {
  moe_weights w;
  w.router = bind.take_matrix(prefix + "gate.weight", c.experts, c.hidden_size);
  w.bias = bind.take_floats(prefix + "gate.e_score_correction_bias", c.experts);
  const auto take = [&bind, &c](const std::string& name, std::int32_t rows, std::int32_t cols) {
    return c.packed_experts ? bind.take_packed(name, rows, cols)
                            : bind.take_matrix(name + ".weight", rows, cols);
  };
  for (std::int32_t e = 0; e < c.experts && !bind.fault(); ++e) {
    const std::string expert = prefix + "experts." + std::to_string(e) + ".";
    w.w1.push_back(take(expert + "w1", c.expert_width, c.expert_dim()));
    w.w3.push_back(take(expert + "w3", c.expert_width, c.expert_dim()));
    w.w2.push_back(take(expert + "w2", c.expert_dim(), c.expert_width));
  }
  if (!bind.fault() &&
      !(one_format(w.w1, w.w1[0].type) && one_format(w.w3, w.w1[0].type) && one_format(w.w2, w.w2[0].type))) {
    bind.refuse(prefix + "experts: w1 and w3 of all experts must be of one dtype, and so must w2");
  }
  if (c.routed_width > 0) {
    w.routed_down =
        bind.take_matrix(prefix + "routed_expert_down_proj.weight", c.routed_width, c.hidden_size);
    w.routed_up = bind.take_matrix(prefix + "routed_expert_up_proj.weight", c.hidden_size, c.routed_width);
  }
  if (c.routed_norm) w.routed_norm = bind.take_floats(prefix + "routed_expert_norm.weight", c.routed_width);
  if (c.shared_experts > 0) {
    w.shared = bind_mlp(bind, c, prefix + "shared_experts.", c.expert_width * c.shared_experts);
  }
  return w;
}

mix_weights bind_mix(binder& bind, const model_config& c, const std::string& prefix) {
  return {bind.take_floats(prefix + "_norm.weight", c.hidden_size),
          bind.take_floats(prefix + "_proj.weight", {{1, c.hidden_size}, {c.hidden_size}})};
}

layer_weights bind_layer(binder& bind, const model_config& c, std::int32_t index) {
  const std::string prefix = "model.layers." + std::to_string(index) + ".";
  layer_weights layer;
  layer.input_norm = bind.take_floats(prefix + "input_layernorm.weight", c.hidden_size);
  layer.post_norm = bind.take_floats(prefix + "post_attention_layernorm.weight", c.hidden_size);
  if (c.layers[static_cast<std::size_t>(index)] == layer_kind::kda) {
    layer.kda = bind_kda(bind, c, prefix + "self_attn.");
  } else {
    layer.mla = bind_mla(bind, c, prefix + "self_attn.");
  }
  if (index < c.dense_layers) {
    layer.dense = bind_mlp(bind, c, prefix + "mlp.", c.dense_width);
  } else {
    layer.moe = bind_moe(bind, c, prefix + "block_sparse_moe.");
  }
  if (c.residual_block == 0) return layer;
  // The first layer's attention has one source alone: the embedding.
  if (index > 0) layer.attention_mix = bind_mix(bind, c, prefix + "self_attention_res");
  layer.mlp_mix = bind_mix(bind, c, prefix + "mlp_res");
  return layer;
}

}  // namespace

model_weights copy_views(const model_weights& weights) {
  model_weights out;
  out.embedding = weights.embedding;
  out.head = weights.head;
  out.norm = weights.norm;
  out.output_mix = weights.output_mix;
  out.layers = weights.layers;
  out.parameter_count = weights.parameter_count;
  out.weight_bytes = weights.weight_bytes;
  return out;
}

result<model_weights> bind_weights(const model_config& config, std::shared_ptr<tensor_source> source) {
  model_weights out;
  out.source = std::move(source);
  binder bind(out, config.nested ? "language_model." : "");
  out.embedding = bind.take_matrix("model.embed_tokens.weight", config.vocab_size, config.hidden_size);
  out.head = config.tie_word_embeddings
                 ? out.embedding
                 : bind.take_matrix("lm_head.weight", config.vocab_size, config.hidden_size);
  out.norm = bind.take_floats("model.norm.weight", config.hidden_size);
  if (config.residual_block > 0) out.output_mix = bind_mix(bind, config, "model.output_attn_res");
  for (std::int32_t i = 0; i < config.layer_count() && !bind.fault(); ++i) {
    out.layers.push_back(bind_layer(bind, config, i));
  }
  if (bind.fault()) return std::unexpected(*bind.fault());
  return out;
}

}  // namespace weir::engine::model
