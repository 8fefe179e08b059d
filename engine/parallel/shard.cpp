#include "engine/parallel/shard.hpp"

#include <cstring>
#include <string>

namespace weir::engine::parallel {

namespace {

using kernels::dtype;
using kernels::matrix;
using model::floats;
using model::layer_kind;
using model::model_config;
using model::model_weights;

std::int32_t group_of(dtype type) {
  return type == dtype::mxfp4 ? kernels::k_mxfp4_group : kernels::k_int8_group;
}

std::int64_t bytes_of(const matrix& m) {
  return kernels::stored_bytes(m.type, static_cast<std::int64_t>(m.rows) * m.cols);
}

// Bytes of one row's scales.
std::int64_t scale_bytes(const matrix& m, std::int32_t cols) {
  if (!kernels::grouped(m.type)) return 0;
  return cols / group_of(m.type) * (m.type == dtype::mxfp4 ? 1 : 4);
}

// What a rank needs of a model, in numbers that must divide.
class divider final {
 public:
  explicit divider(const shard& part) : part_(part) {}

  void divide(const char* key, std::int32_t count) {
    if (fault_ || count % part_.size == 0) return;
    fault_ = error{errc::bad_request, std::string(key) + " is " + std::to_string(count) + ": " +
                                          std::to_string(part_.size) + " ranks do not divide it"};
  }
  // Columns that come in groups, as far as all of them do.
  void keep_groups(const char* key, std::int32_t columns, std::int32_t group, const char* format) {
    if (fault_ || columns % group != 0 || columns / part_.size % group == 0) return;
    fault_ = error{errc::bad_request, std::string(key) + ": " + std::to_string(columns) + " columns on " +
                                          std::to_string(part_.size) + " ranks cut through the groups of " +
                                          std::to_string(group) + " that share a scale in " + format};
  }
  result<void> said() const {
    if (fault_) return std::unexpected(*fault_);
    return {};
  }

 private:
  const shard& part_;
  std::optional<error> fault_;
};

// Cuts matrices and vectors in place, and keeps account of their bytes.
class cutter final {
 public:
  cutter(model_weights& weights, const shard& part) : weights_(weights), part_(part) {}

  // A rank's share of the rows; null stays null.
  void rows(matrix& m) { rows(m, part_.begin_of(m.rows), part_.end_of(m.rows)); }
  void columns(matrix& m);
  void drop(const matrix& m) { weights_.weight_bytes -= bytes_of(m); }
  floats part(floats all) const {
    const auto count = static_cast<std::int32_t>(all.size());
    const std::int32_t begin = part_.begin_of(count);
    return all.subspan(static_cast<std::size_t>(begin),
                       static_cast<std::size_t>(part_.end_of(count) - begin));
  }
  // Of [taps, channels].
  floats channels(floats all, std::int32_t taps);
  // Not counted: another matrix has these bytes.
  void rows_of_shared(matrix& m) {
    const std::int64_t before = weights_.weight_bytes;
    rows(m);
    weights_.weight_bytes = before;
  }

 private:
  void rows(matrix& m, std::int32_t begin, std::int32_t end);

  model_weights& weights_;
  const shard& part_;
};

void cutter::rows(matrix& m, std::int32_t begin, std::int32_t end) {
  if (m.data == nullptr) return;
  weights_.weight_bytes -= bytes_of(m);
  m.data = static_cast<const std::byte*>(m.data) +
           kernels::code_bytes(m.type, static_cast<std::int64_t>(begin) * m.cols);
  if (m.scales != nullptr)
    m.scales = static_cast<const std::byte*>(m.scales) + begin * scale_bytes(m, m.cols);
  m.rows = end - begin;
  weights_.weight_bytes += bytes_of(m);
}

void cutter::columns(matrix& m) {
  if (m.data == nullptr) return;
  const std::int32_t begin = part_.begin_of(m.cols);
  matrix out{nullptr, m.type, m.rows, part_.end_of(m.cols) - begin};
  weights_.weight_bytes += bytes_of(out) - bytes_of(m);
  std::byte* const to = weights_.made.take(static_cast<std::size_t>(bytes_of(out))).data();
  const auto copy_rows = [&](std::byte* into, const void* from, std::int64_t row, std::int64_t at,
                             std::int64_t count) {
    for (std::int64_t r = 0; r < m.rows; ++r) {
      std::memcpy(into + r * count, static_cast<const std::byte*>(from) + r * row + at,
                  static_cast<std::size_t>(count));
    }
    return into + m.rows * count;
  };
  std::byte* const behind =
      copy_rows(to, m.data, kernels::code_bytes(m.type, m.cols), kernels::code_bytes(m.type, begin),
                kernels::code_bytes(m.type, out.cols));
  out.data = to;
  if (m.scales != nullptr) {
    out.scales = behind;
    copy_rows(behind, m.scales, scale_bytes(m, m.cols), scale_bytes(m, begin), scale_bytes(m, out.cols));
  }
  m = out;
}

floats cutter::channels(floats all, std::int32_t taps) {
  const auto row = static_cast<std::int32_t>(all.size()) / taps;
  std::vector<float> out;
  for (std::int32_t tap = 0; tap < taps; ++tap) {
    const floats own = part(all.subspan(static_cast<std::size_t>(tap) * static_cast<std::size_t>(row),
                                        static_cast<std::size_t>(row)));
    out.insert(out.end(), own.begin(), own.end());
  }
  return weights_.vectors.emplace_back(std::move(out));
}

void cut_kda(model::kda_weights& w, cutter& cut, std::int32_t taps) {
  for (matrix* m : {&w.q, &w.k, &w.v, &w.decay_b, &w.gate, &w.beta}) cut.rows(*m);
  for (floats* f : {&w.q_conv, &w.k_conv, &w.v_conv}) *f = cut.channels(*f, taps);
  w.a_log = cut.part(w.a_log);
  w.dt_bias = cut.part(w.dt_bias);
  cut.columns(w.out);
}

void cut_mla(model::mla_weights& w, cutter& cut) {
  for (matrix* m : {&w.q, &w.kv_b, &w.gate}) cut.rows(*m);
  cut.columns(w.out);
}

void cut_mlp(model::mlp_weights& w, cutter& cut) {
  cut.rows(w.gate);
  cut.rows(w.up);
  cut.columns(w.down);
}

void cut_moe(model::moe_weights& w, cutter& cut, const shard& part) {
  const auto experts = static_cast<std::int32_t>(w.w1.size());
  if (part.split == split_kind::tensor) {
    for (std::size_t e = 0; e < w.w1.size(); ++e) {
      cut.rows(w.w1[e]);
      cut.rows(w.w3[e]);
      cut.columns(w.w2[e]);
    }
    if (w.shared) cut_mlp(*w.shared, cut);
    return;
  }
  for (std::vector<matrix>* all : {&w.w1, &w.w3, &w.w2}) {
    for (std::int32_t e = 0; e < experts; ++e) {
      if (e < part.begin_of(experts) || e >= part.end_of(experts))
        cut.drop((*all)[static_cast<std::size_t>(e)]);
    }
    all->erase(all->begin() + part.end_of(experts), all->end());
    all->erase(all->begin(), all->begin() + part.begin_of(experts));
  }
}

}  // namespace

result<void> check_shard(const model_config& c, weight_format format, const shard& part) {
  divider by(part);
  const bool tensor = part.split == split_kind::tensor;
  const std::int32_t shared_width = c.shared_experts * c.expert_width;
  if (c.count(layer_kind::kda) > 0) by.divide("linear_attn_config.num_heads", c.kda_heads);
  if (c.count(layer_kind::mla) > 0) by.divide("num_attention_heads", c.mla_heads);
  if (c.dense_layers > 0) by.divide("intermediate_size", c.dense_width);
  if (c.experts > 0 && tensor) by.divide("moe_intermediate_size", c.expert_width);
  if (c.experts > 0 && !tensor) by.divide("num_experts", c.experts);
  if (auto divides = by.said(); !divides) return divides;
  if (format == weight_format::int8) {
    const auto keep = [&by](const char* key, std::int32_t columns) {
      by.keep_groups(key, columns, kernels::k_int8_group, "int8");
    };
    if (c.count(layer_kind::kda) > 0) keep("linear_attn_config", c.kda_channels());
    if (c.count(layer_kind::mla) > 0) keep("num_attention_heads times v_head_dim", c.mla_heads * c.value_dim);
    if (c.dense_layers > 0) keep("intermediate_size", c.dense_width);
    if (tensor && c.shared_experts > 0) keep("num_shared_experts times moe_intermediate_size", shared_width);
    if (tensor && c.experts > 0 && !c.packed_experts) keep("moe_intermediate_size", c.expert_width);
  }
  if (tensor && c.experts > 0 && (c.packed_experts || format == weight_format::mxfp4)) {
    by.keep_groups("moe_intermediate_size", c.expert_width, kernels::k_mxfp4_group, "MXFP4");
  }
  return by.said();
}

model_config config_of(const model_config& whole, const shard& part) {
  model_config out = whole;
  out.kda_heads /= part.size;
  out.mla_heads /= part.size;
  out.dense_width /= part.size;
  if (part.split == split_kind::tensor) out.expert_width /= part.size;
  return out;
}

void take_shard(model_weights& weights, const model_config& whole, const shard& part) {
  if (part.size == 1) return;
  cutter cut(weights, part);
  if (weights.head.data == weights.embedding.data) {
    cut.rows_of_shared(weights.head);
  } else {
    cut.rows(weights.head);
  }
  for (model::layer_weights& layer : weights.layers) {
    if (layer.kda) cut_kda(*layer.kda, cut, whole.conv_taps);
    if (layer.mla) cut_mla(*layer.mla, cut);
    if (layer.dense) cut_mlp(*layer.dense, cut);
    if (layer.moe) cut_moe(*layer.moe, cut, part);
  }
}

}  // namespace weir::engine::parallel
