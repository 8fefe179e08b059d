#include "engine/model/narrow_weights.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

namespace weir::engine::model {

namespace {

using kernels::dtype;
using kernels::k_int8_group;
using kernels::k_mxfp4_group;

constexpr float k_int8_largest = 127.0F;
constexpr std::int64_t k_grain_values = 1 << 16;
constexpr int k_exponent_bias = 127;
constexpr float k_e2m1_values[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};

// NaN is left out: it has no code in either format, and becomes zero.
float largest_of(const float* values, std::int32_t count) {
  float largest = 0.0F;
  for (std::int32_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(values[i]));
  return std::min(largest, 0x1p127F);
}

void narrow_int8(const float* values, std::int8_t* codes, float* scale) {
  const float largest = largest_of(values, k_int8_group);
  *scale = largest / k_int8_largest;
  const float inverse = *scale > 0.0F ? 1.0F / *scale : 0.0F;
  for (std::int32_t i = 0; i < k_int8_group; ++i) {
    const float code = std::nearbyintf(values[i] * inverse);
    codes[i] = static_cast<std::int8_t>(std::isfinite(code) ? std::clamp(code, -127.0F, 127.0F) : 0.0F);
  }
}

// The code whose value is nearest; halfway between two, the even one.
std::uint8_t nearest_e2m1(float value) {
  const float size = std::fabs(value);
  const int code = (size > 0.25F) + (size >= 0.75F) + (size > 1.25F) + (size >= 1.75F) + (size > 2.5F) +
                   (size >= 3.5F) + (size > 5.0F);
  return static_cast<std::uint8_t>(value < 0.0F ? code | 8 : code);
}

struct mxfp4_group {
  std::array<std::uint8_t, k_mxfp4_group> codes{};
  double error = 0.0;
};

mxfp4_group code_group(const float* values, int exponent) {
  const float factor = std::ldexp(1.0F, exponent);
  const float inverse = std::ldexp(1.0F, -exponent);
  mxfp4_group out;
  for (std::size_t i = 0; i < out.codes.size(); ++i) {
    out.codes[i] = nearest_e2m1(values[i] * inverse);
    const double lost = std::fabs(static_cast<double>(values[i])) -
                        static_cast<double>(factor * k_e2m1_values[out.codes[i] & 7U]);
    out.error += lost * lost;
  }
  return out;
}

void narrow_mxfp4(const float* values, std::uint8_t* pairs, std::uint8_t* scale) {
  const float largest = largest_of(values, k_mxfp4_group);
  mxfp4_group best;
  int exponent = -k_exponent_bias;
  if (largest > 0.0F) {
    // Where the largest value is cut to 6, or one higher, where nothing is.
    exponent = std::max(std::ilogb(largest) - 2, -k_exponent_bias);
    best = code_group(values, exponent);
    if (mxfp4_group wider = code_group(values, exponent + 1); wider.error < best.error) {
      best = wider;
      ++exponent;
    }
  }
  *scale = static_cast<std::uint8_t>(exponent + k_exponent_bias);
  for (std::size_t i = 0; i < best.codes.size(); i += 2) {
    pairs[i / 2] = static_cast<std::uint8_t>(best.codes[i] | (best.codes[i + 1] << 4U));
  }
}

// The matrices that `format` narrows, where they are.
std::vector<matrix*> candidates(model_weights& weights, weight_format format) {
  std::vector<matrix*> out;
  const auto add = [&out, format](std::initializer_list<matrix*> all) {
    const std::int32_t group = format == weight_format::int8 ? k_int8_group : k_mxfp4_group;
    for (matrix* m : all) {
      if (m->data != nullptr && !kernels::grouped(m->type) && m->cols % group == 0) out.push_back(m);
    }
  };
  const bool all = format == weight_format::int8;
  const auto add_mlp = [&](mlp_weights& w) { add({&w.gate, &w.up, &w.down}); };
  if (all) add({&weights.head});
  for (layer_weights& layer : weights.layers) {
    if (layer.moe) {
      auto& w = *layer.moe;
      for (std::size_t e = 0; e < w.w1.size(); ++e) add({&w.w1[e], &w.w3[e], &w.w2[e]});
    }
    if (!all) continue;
    if (layer.kda) add({&layer.kda->q, &layer.kda->k, &layer.kda->v, &layer.kda->gate, &layer.kda->out});
    if (layer.mla) add({&layer.mla->q, &layer.mla->q_a, &layer.mla->kv_a, &layer.mla->gate, &layer.mla->out});
    if (layer.dense) add_mlp(*layer.dense);
    if (!layer.moe) continue;
    add({&layer.moe->routed_down, &layer.moe->routed_up});
    if (layer.moe->shared) add_mlp(*layer.moe->shared);
  }
  return out;
}

// A head that is tied to the embedding is that, or some rows of it. REQUIRES: `all` is not grouped.
bool lies_in(const matrix& m, const matrix& all) {
  const auto* const begin = static_cast<const std::byte*>(all.data);
  const auto* const end = begin + kernels::code_bytes(all.type, values_of(all));
  return !std::less<>()(static_cast<const std::byte*>(m.data), begin) &&
         std::less<>()(static_cast<const std::byte*>(m.data), end);
}

}  // namespace

void narrow_matrix(const matrix& from, const matrix& to, kernels::thread_pool& pool) {
  const bool int8 = to.type == dtype::int8;
  const std::int32_t group = int8 ? k_int8_group : k_mxfp4_group;
  const std::int64_t groups = from.cols / group;
  pool.run(from.rows, std::max<std::int64_t>(k_grain_values / from.cols, 1),
           [&](std::int64_t begin, std::int64_t end, int) {
             std::array<float, static_cast<std::size_t>(std::max(k_int8_group, k_mxfp4_group))> values;
             for (std::int64_t g = begin * groups; g < end * groups; ++g) {
               const std::int64_t first = g * group;
               for (std::int32_t i = 0; i < group; ++i) {
                 values[static_cast<std::size_t>(i)] =
                     kernels::load_weight(from.data, from.type, static_cast<std::size_t>(first + i));
               }
               auto* codes = static_cast<std::byte*>(const_cast<void*>(to.data));
               if (int8) {
                 narrow_int8(values.data(), reinterpret_cast<std::int8_t*>(codes + first),
                             const_cast<float*>(to.factors()) + g);
               } else {
                 narrow_mxfp4(values.data(), reinterpret_cast<std::uint8_t*>(codes + first / 2),
                              const_cast<std::uint8_t*>(to.exponents()) + g);
               }
             }
           });
}

void narrow_weights(model_weights& weights, weight_format format, kernels::thread_pool& pool,
                    const std::function<void(std::int64_t, std::int64_t)>& told) {
  if (format == weight_format::stored) return;
  const dtype type = format == weight_format::int8 ? dtype::int8 : dtype::mxfp4;
  const std::vector<matrix*> all = candidates(weights, format);
  std::int64_t left = 0;
  for (const matrix* m : all) left += values_of(*m);
  const std::int64_t total = left;
  for (matrix* m : all) {
    const std::int64_t values = values_of(*m);
    const std::int64_t codes = type == dtype::int8 ? values : values / 2;
    const auto bytes = static_cast<std::size_t>(kernels::stored_bytes(type, values));
    std::byte* data = weights.made.take(bytes).data();
    const matrix to{data, type, m->rows, m->cols, data + codes};
    narrow_matrix(*m, to, pool);
    const bool counted_elsewhere = m == &weights.head && lies_in(*m, weights.embedding);
    if (!counted_elsewhere) weights.weight_bytes -= kernels::stored_bytes(m->type, values);
    weights.weight_bytes += static_cast<std::int64_t>(bytes);
    *m = to;
    left -= values;
    if (told) told(total - left, total);
  }
}

}  // namespace weir::engine::model
