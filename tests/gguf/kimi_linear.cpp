#include "tests/gguf/kimi_linear.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "kernels/dtype.hpp"

namespace weir::tests::gguf {

namespace {

using engine::model::kda_weights;
using engine::model::layer_kind;
using engine::model::layer_weights;
using engine::model::mla_weights;
using engine::model::mlp_weights;
using engine::model::model_config;
using engine::model::moe_weights;
using kernels::dtype;
using kernels::matrix;
using dims = std::vector<std::uint64_t>;

constexpr std::uint32_t k_sigmoid_gating = 2;
constexpr std::uint32_t k_all_f32 = 0, k_mostly_bf16 = 32;  // general.file_type
constexpr std::int32_t k_normal_token = 1;

void put_floats(std::ostream& out, std::span<const float> values) {
  out.write(reinterpret_cast<const char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(float)));
}

// Rows [first, first + count) of a matrix, widened or as they are.
void put_rows(std::ostream& out, const matrix& m, std::int64_t first, std::int64_t count, tensor_type type) {
  const std::size_t cols = static_cast<std::size_t>(m.cols);
  if (type != tensor_type::f32 || m.type == dtype::f32) {
    const auto row_bytes = static_cast<std::int64_t>(cols * kernels::size_bytes(m.type));
    out.write(static_cast<const char*>(m.data) + first * row_bytes, count * row_bytes);
    return;
  }
  std::vector<float> row(cols);
  for (std::int64_t r = first; r < first + count; ++r) {
    for (std::size_t c = 0; c < cols; ++c)
      row[c] = kernels::load_weight(m.data, m.type, static_cast<std::size_t>(r) * cols + c);
    put_floats(out, row);
  }
}

// The key half of kv_b, each head transposed: [H, R, Dn] of [H * (Dn + Dv), R].
void put_k_b(std::ostream& out, const matrix& kv_b, const model_config& c, tensor_type type) {
  const auto rank = static_cast<std::size_t>(c.kv_lora_rank);
  for (std::int32_t h = 0; h < c.mla_heads; ++h) {
    const auto first = static_cast<std::size_t>(h * (c.nope_dim + c.value_dim));
    for (std::size_t r = 0; r < rank; ++r) {
      for (std::size_t n = 0; n < static_cast<std::size_t>(c.nope_dim); ++n) {
        const std::size_t index = (first + n) * rank + r;
        if (type == tensor_type::f32) {
          const float value = kernels::load_weight(kv_b.data, kv_b.type, index);
          out.write(reinterpret_cast<const char*>(&value), sizeof value);
        } else {
          out.write(reinterpret_cast<const char*>(static_cast<const std::uint16_t*>(kv_b.data) + index), 2);
        }
      }
    }
  }
}

void put_v_b(std::ostream& out, const matrix& kv_b, const model_config& c, tensor_type type) {
  for (std::int32_t h = 0; h < c.mla_heads; ++h)
    put_rows(out, kv_b, h * (c.nope_dim + c.value_dim) + c.nope_dim, c.value_dim, type);
}

// Adds the tensors of a model to a file, each under the name that llama.cpp looks for.
class converter final {
 public:
  converter(file& out, const model_config& c, precision how) : out_(out), c_(c), how_(how) {}

  void add_matrix(const std::string& name, const matrix& m) { add_matrix(name, m, type_of(m)); }

  void add_floats(const std::string& name, std::span<const float> values, dims shape) {
    out_.add(
        {name, std::move(shape), tensor_type::f32, [values](std::ostream& to) { put_floats(to, values); }});
  }

  void add_floats(const std::string& name, std::span<const float> values) {
    add_floats(name, values, {values.size()});
  }

  void add_layer(std::int32_t index, const layer_weights& w) {
    block_ = "blk." + std::to_string(index) + ".";
    add_floats(block_ + "attn_norm.weight", w.input_norm);
    if (w.kda) add_kda(*w.kda);
    if (w.mla) add_mla(*w.mla);
    add_floats(block_ + "ffn_norm.weight", w.post_norm);
    if (w.dense) add_mlp(*w.dense, "");
    if (w.moe) add_moe(*w.moe);
  }

 private:
  tensor_type type_of(const matrix& m) const {
    if (how_ == precision::widened || m.type == dtype::f32) return tensor_type::f32;
    return m.type == dtype::bf16 ? tensor_type::bf16 : tensor_type::f16;
  }

  void add_matrix(const std::string& name, const matrix& m, tensor_type type) {
    out_.add({name, {size(m.cols), size(m.rows)}, type, [&m, type](std::ostream& to) {
                put_rows(to, m, 0, m.rows, type);
              }});
  }

  static std::uint64_t size(std::int32_t value) { return static_cast<std::uint64_t>(value); }

  // Taps of a channel side by side, where the engine has channels of a tap side by side.
  void add_taps(const std::string& name, std::span<const float> taps) {
    const std::uint64_t channels = size(c_.kda_channels()), count = size(c_.conv_taps);
    out_.add({name, {count, 1, channels, 1}, tensor_type::f32, [taps, channels, count](std::ostream& to) {
                std::vector<float> turned;
                turned.reserve(taps.size());
                for (std::uint64_t channel = 0; channel < channels; ++channel)
                  for (std::uint64_t tap = 0; tap < count; ++tap)
                    turned.push_back(taps[tap * channels + channel]);
                put_floats(to, turned);
              }});
  }

  void add_kda(const kda_weights& w) {
    add_taps(block_ + "ssm_conv1d_q.weight", w.q_conv);
    add_taps(block_ + "ssm_conv1d_k.weight", w.k_conv);
    add_taps(block_ + "ssm_conv1d_v.weight", w.v_conv);
    add_matrix(block_ + "attn_q.weight", w.q);
    add_matrix(block_ + "attn_k.weight", w.k);
    add_matrix(block_ + "attn_v.weight", w.v);
    add_matrix(block_ + "ssm_f_a.weight", w.decay_a);
    add_matrix(block_ + "ssm_f_b.weight", w.decay_b);
    add_matrix(block_ + "ssm_beta.weight", w.beta);
    out_.add({block_ + "ssm_a", {1, w.a_log.size(), 1, 1}, tensor_type::f32, [&w](std::ostream& to) {
                std::vector<float> decay(w.a_log.begin(), w.a_log.end());
                for (float& value : decay) value = -std::exp(value);
                put_floats(to, decay);
              }});
    add_floats(block_ + "ssm_dt.bias", w.dt_bias);
    add_matrix(block_ + "ssm_g_a.weight", w.gate_a);
    add_matrix(block_ + "ssm_g_b.weight", w.gate);
    add_floats(block_ + "ssm_norm.weight", w.norm);
    add_matrix(block_ + "attn_output.weight", w.out);
  }

  void add_mla(const mla_weights& w) {
    add_matrix(block_ + "attn_q.weight", w.q);
    add_matrix(block_ + "attn_kv_a_mqa.weight", w.kv_a);
    add_floats(block_ + "attn_kv_a_norm.weight", w.kv_norm);
    const tensor_type type = type_of(w.kv_b);
    const model_config& c = c_;
    out_.add({block_ + "attn_k_b.weight",
              {size(c.nope_dim), size(c.kv_lora_rank), size(c.mla_heads)},
              type,
              [&w, &c, type](std::ostream& to) { put_k_b(to, w.kv_b, c, type); }});
    out_.add({block_ + "attn_v_b.weight",
              {size(c.kv_lora_rank), size(c.value_dim), size(c.mla_heads)},
              type,
              [&w, &c, type](std::ostream& to) { put_v_b(to, w.kv_b, c, type); }});
    add_matrix(block_ + "attn_output.weight", w.out);
  }

  void add_mlp(const mlp_weights& w, const std::string& suffix) {
    add_matrix(block_ + "ffn_gate" + suffix + ".weight", w.gate);
    add_matrix(block_ + "ffn_up" + suffix + ".weight", w.up);
    add_matrix(block_ + "ffn_down" + suffix + ".weight", w.down);
  }

  // All experts as one tensor.
  void add_experts(const std::string& name, const std::vector<matrix>& experts) {
    const tensor_type type = type_of(experts.front());
    out_.add({name,
              {size(experts.front().cols), size(experts.front().rows), experts.size()},
              type,
              [&experts, type](std::ostream& to) {
                for (const matrix& m : experts) put_rows(to, m, 0, m.rows, type);
              }});
  }

  void add_moe(const moe_weights& w) {
    add_matrix(block_ + "ffn_gate_inp.weight", w.router, tensor_type::f32);
    add_floats(block_ + "exp_probs_b.bias", w.bias);
    add_experts(block_ + "ffn_gate_exps.weight", w.w1);
    add_experts(block_ + "ffn_up_exps.weight", w.w3);
    add_experts(block_ + "ffn_down_exps.weight", w.w2);
    if (w.shared) add_mlp(*w.shared, "_shexp");
  }

  file& out_;
  const model_config& c_;
  precision how_;
  std::string block_;
};

void set_keys(file& out, const model_config& c, precision how) {
  const auto set = [&out](const std::string& key, std::int32_t value) {
    out.set("kimi-linear." + key, static_cast<std::uint32_t>(value));
  };
  out.set("general.architecture", std::string_view("kimi-linear"));
  out.set("general.file_type", how == precision::widened ? k_all_f32 : k_mostly_bf16);
  set("block_count", c.layer_count());
  set("context_length", c.context_tokens);
  set("embedding_length", c.hidden_size);
  set("feed_forward_length", c.dense_width);
  set("vocab_size", c.vocab_size);
  set("attention.head_count", c.mla_heads);
  // The latent is one head's key and value; a layer without keys is a recurrent one.
  std::vector<std::int32_t> kv_heads;
  for (const layer_kind kind : c.layers) kv_heads.push_back(kind == layer_kind::mla ? 1 : 0);
  out.set("kimi-linear.attention.head_count_kv", kv_heads);
  set("attention.key_length", c.latent_width());
  set("attention.kv_lora_rank", c.kv_lora_rank);
  set("attention.key_length_mla", c.nope_dim + c.rope_dim);
  set("attention.value_length_mla", c.value_dim);
  set("rope.dimension_count", c.rope_dim);
  out.set("kimi-linear.attention.layer_norm_rms_epsilon", static_cast<float>(c.rms_norm_eps));
  set("ssm.conv_kernel", c.conv_taps);
  set("kda.head_dim", c.kda_dim);
  set("leading_dense_block_count", c.dense_layers);
  set("expert_count", c.experts);
  set("expert_used_count", c.experts_per_token);
  set("expert_shared_count", c.shared_experts);
  set("expert_feed_forward_length", c.expert_width);
  out.set("kimi-linear.expert_weights_scale", static_cast<float>(c.routed_scale));
  out.set("kimi-linear.expert_gating_func", k_sigmoid_gating);

  std::vector<std::string> names;
  for (std::int32_t i = 0; i < c.vocab_size; ++i) names.push_back("token" + std::to_string(i));
  out.set("tokenizer.ggml.model", std::string_view("gpt2"));
  out.set("tokenizer.ggml.pre", std::string_view("kimi-k2"));  // which asks for no merges
  out.set("tokenizer.ggml.tokens", names);
  out.set("tokenizer.ggml.token_type", std::vector<std::int32_t>(names.size(), k_normal_token));
  out.set("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(c.eos_tokens.front()));
}

std::optional<std::string> missing_feature(const model_config& c) {
  if (c.nested || c.residual_block > 0 || c.routed_width > 0 || c.packed_experts || c.q_lora_rank > 0 ||
      c.mla_output_gate || c.full_rank_gate || c.gate_lower_bound != 0.0 || c.situ.bounded())
    return "features of Kimi K3";
  if (c.kda_heads != c.mla_heads) return "KDA and MLA layers with different numbers of heads";
  if (!c.renormalize || c.shared_experts == 0) return "experts without renormalisation or a shared one";
  if (c.experts == 0 || c.count(layer_kind::mla) == 0 || c.count(layer_kind::kda) == 0)
    return "models without experts, MLA layers or KDA layers";
  return std::nullopt;
}

}  // namespace

engine::result<file> kimi_linear_file(const engine::runner::loaded_model& model, precision how) {
  const model_config& c = model.config;
  if (const auto missing = missing_feature(c)) {
    return engine::fail(engine::errc::unsupported,
                        "llama.cpp's kimi-linear architecture does not have: " + *missing);
  }
  file out;
  set_keys(out, c, how);
  converter to(out, c, how);
  to.add_matrix("token_embd.weight", model.weights.embedding);
  to.add_matrix("output.weight", model.weights.head);
  to.add_floats("output_norm.weight", model.weights.norm);
  for (std::int32_t i = 0; i < c.layer_count(); ++i)
    to.add_layer(i, model.weights.layers[static_cast<std::size_t>(i)]);
  return out;
}

}  // namespace weir::tests::gguf
