// Weights and activations on their way into tensor cores. In a step of 32 values of depth, which is two mma,
// lane l has 8 consecutive ones of weight rows l / 4 and l / 4 + 8 and of token l / 4: sixteen bytes of bf16.
// That pairs depths of an mma otherwise than its operands name them, on both sides alike, and saves every
// exchange between lanes.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/product_config.hpp"
#include "kernels/params.hpp"

namespace weir::kernels::cuda {

// Where a row of weights lies.
struct weight_row {
  const std::uint8_t* codes;
  const std::uint8_t* scales;
};

template <dtype Type>
__device__ inline weight_row row_of(const matrix& m, int row) {
  const std::int64_t first = static_cast<std::int64_t>(row < m.rows ? row : m.rows - 1) * m.cols;
  const auto* data = static_cast<const std::uint8_t*>(m.data);
  if constexpr (Type == dtype::mxfp4)
    return {data + first / 2, static_cast<const std::uint8_t*>(m.scales) + first / k_mxfp4_group};
  return {data + first * 2, nullptr};
}

// Sixteen bytes of a row, which are k_steps steps of its depth.
template <dtype Type>
struct weight_unit;

template <>
struct weight_unit<dtype::bf16> {
  static constexpr int k_steps = 1;
  static constexpr int k_depth = k_step_depth;
  static constexpr int k_ring = k_ring_bf16;
  uint4 bits;

  __device__ void load(const weight_row& row, int unit, int cols) {
    const int col = unit * k_depth + 8 * (lane_index() % 4);
    bits = make_uint4(0, 0, 0, 0);
    if (col < cols) bits = load_once(row.codes + 2 * static_cast<std::int64_t>(col));
  }
  __device__ uint4 step(int) const { return bits; }
};

// A lane has a whole group, so that its scale is one byte beside it.
template <>
struct weight_unit<dtype::mxfp4> {
  static constexpr int k_steps = 4;
  static constexpr int k_depth = k_step_depth * k_steps;
  static constexpr int k_ring = k_ring_mxfp4;
  uint4 codes;
  std::uint32_t exponent;

  __device__ void load(const weight_row& row, int unit, int cols) {
    const int group = unit * 4 + lane_index() % 4;
    codes = make_uint4(0, 0, 0, 0);
    exponent = 0;
    if (group * k_mxfp4_group < cols) {
      codes = load_once(row.codes + static_cast<std::int64_t>(group) * (k_mxfp4_group / 2));
      exponent = row.scales[group];
    }
  }

  // Codes 0 to 7 of a word in the order 0 4, 1 5, 2 6, 3 7. Sign, exponent and mantissa of a code put where
  // bf16 has them are 2^-126 of its value, zero and the subnormal half included, and what is missing comes
  // with the scale: 2^(exponent - 127 + 126), in two factors where one would overflow.
  __device__ uint4 step(int index) const {
    const std::uint32_t word = index == 0 ? codes.x : index == 1 ? codes.y : index == 2 ? codes.z : codes.w;
    const std::uint32_t shown = exponent <= 128 ? exponent + 126 : 254;
    const std::uint32_t scale = exponent == 255 ? 0 : shown << 23 | shown << 7;
    uint4 out;
    out.x = multiply_bf16((word << 12 & 0x80008000U) | (word << 6 & 0x01C001C0U), scale);
    out.y = multiply_bf16((word << 8 & 0x80008000U) | (word << 2 & 0x01C001C0U), scale);
    out.z = multiply_bf16((word << 4 & 0x80008000U) | (word >> 2 & 0x01C001C0U), scale);
    out.w = multiply_bf16((word & 0x80008000U) | (word >> 6 & 0x01C001C0U), scale);
    if (exponent > 128 && exponent != 255) {
      const std::uint32_t rest = (exponent - 1) << 23 | (exponent - 1) << 7;
      out = make_uint4(multiply_bf16(out.x, rest), multiply_bf16(out.y, rest), multiply_bf16(out.z, rest),
                       multiply_bf16(out.w, rest));
    }
    return out;
  }
};

// Depth of the first of the eight values that lane `quad` of four has in a step.
template <dtype Type>
__device__ inline int first_depth(int unit, int step, int quad) {
  if constexpr (Type == dtype::mxfp4) return unit * 128 + quad * 32 + step * 8;
  return unit * 32 + quad * 8;
}

// Where depth k of a packed row lies: steps of 32 one after another, in them the lanes' values.
template <dtype Type>
__device__ inline int packed_index(int k) {
  if constexpr (Type != dtype::mxfp4) return k;
  return k / 128 * 128 + k % 32 / 8 * 32 + k % 128 / 32 * 8 + k % 4 * 2 + k % 8 / 4;
}

// The eight activations of a lane, in the order of the weights, as one part (rounded to bf16) or as three
// whose sum is the activation to within 2^-24.
template <dtype Type, int Parts>
__device__ inline void split_activations(uint4 (&parts)[Parts], float4 low, float4 high) {
  float even[4] = {low.x, low.z, high.x, high.z};
  float odd[4] = {low.y, low.w, high.y, high.w};
  if constexpr (Type == dtype::mxfp4) {
    even[0] = low.x, even[1] = low.y, even[2] = low.z, even[3] = low.w;
    odd[0] = high.x, odd[1] = high.y, odd[2] = high.z, odd[3] = high.w;
  }
#pragma unroll
  for (int part = 0; part < Parts; ++part) {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = pack_bf16(even[i], odd[i]);
      even[i] -= low_bf16(words[i]);
      odd[i] -= high_bf16(words[i]);
    }
    parts[part] = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

// The eight of a token in memory; zeros for no token and behind the end.
template <dtype Type, int Parts>
__device__ inline void load_activations(uint4 (&parts)[Parts], const float* token, int unit, int step,
                                        int quad, int cols) {
  const int col = first_depth<Type>(unit, step, quad);
  float4 low = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  float4 high = low;
  if (token != nullptr && col < cols) {
    low = reinterpret_cast<const float4*>(token + col)[0];
    high = reinterpret_cast<const float4*>(token + col)[1];
  }
  split_activations<Type, Parts>(parts, low, high);
}

// One step of a tile: two mma.
__device__ inline void multiply_step(float (&sums)[4], const uint4& low_row, const uint4& high_row,
                                     const uint4& tokens) {
  const std::uint32_t first[4] = {low_row.x, high_row.x, low_row.y, high_row.y};
  const std::uint32_t second[4] = {low_row.z, high_row.z, low_row.w, high_row.w};
  const std::uint32_t first_tokens[2] = {tokens.x, tokens.y};
  const std::uint32_t second_tokens[2] = {tokens.z, tokens.w};
  mma_bf16(sums, first, first_tokens);
  mma_bf16(sums, second, second_tokens);
}

}  // namespace weir::kernels::cuda
