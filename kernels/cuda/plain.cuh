// Products one weight at a time: for every stored format and shape that tensor cores do not take.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/plain_config.hpp"
#include "kernels/params.hpp"

namespace weir::kernels::cuda {

__device__ inline float e8m0_scale(std::uint32_t byte) {
  if (byte == 255) return 0.0F;
  return __uint_as_float(byte == 0 ? 0x00400000U : byte << 23);
}

__device__ inline float weight_at(const matrix& m, std::int64_t index) {
  if (m.type == dtype::mxfp4) {
    const std::uint32_t pair = static_cast<const std::uint8_t*>(m.data)[index / 2];
    const std::uint32_t code = index % 2 == 0 ? pair & 15U : pair >> 4U;
    // The code's bits where bf16 has them are 2^-126 of its value.
    const float value = __uint_as_float((code & 8U) << 28 | (code & 7U) << 22) * 0x1p126F;
    return value * e8m0_scale(static_cast<const std::uint8_t*>(m.scales)[index / k_mxfp4_group]);
  }
  if (m.type == dtype::int8) {
    return static_cast<float>(static_cast<const std::int8_t*>(m.data)[index]) *
           static_cast<const float*>(m.scales)[index / k_int8_group];
  }
  return load_element(m.data, m.type, static_cast<std::size_t>(index));
}

__device__ inline float rounded(float x) {
  return from_bf16(to_bf16(x));
}

// Row `row` of m with up to Tokens tokens x[i], of which `count` are there; Round: they are taken as bf16.
// The whole warp, each lane has the sums.
template <bool Round, int Tokens>
__device__ inline void multiply_row(float (&sums)[Tokens], const matrix& m, std::int64_t row,
                                    const float* const (&x)[Tokens], int count) {
  for (int i = 0; i < Tokens; ++i) sums[i] = 0.0F;
  for (int k = lane_index(); k < m.cols; k += k_warp) {
    const float weight = weight_at(m, row * m.cols + k);
#pragma unroll
    for (int i = 0; i < Tokens; ++i) {
      if (i < count) sums[i] += weight * (Round ? rounded(x[i][k]) : x[i][k]);
    }
  }
#pragma unroll
  for (int i = 0; i < Tokens; ++i) sums[i] = warp_sum(sums[i]);
}

// Whether activations beside such weights are rounded to bf16 in `narrow`.
constexpr bool rounds_activations(dtype type) {
  return type == dtype::bf16 || type == dtype::mxfp4;
}

}  // namespace weir::kernels::cuda
