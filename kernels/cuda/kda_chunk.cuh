// What the two halves of kda_chunk.cu exchange through shared memory, and the splitting of numbers into bf16.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/kda_chunk.hpp"

namespace weir::kernels::cuda {

// A chunk as the state's warps want it; [2] is a number's two halves.
struct chunk_operands {
  alignas(16) std::uint16_t w[2][k_kda_chunk][k_kda_operand_stride];
  alignas(16) std::uint16_t q[2][k_kda_chunk][k_kda_operand_stride];  // q E(., start)
  alignas(16) std::uint16_t k[2][k_kda_chunk][k_kda_operand_stride];  // k E(end, .)
  alignas(16) std::uint16_t p[2][k_kda_chunk][k_kda_p_stride];
  alignas(16) float u[k_kda_chunk][k_kda_u_stride];
  alignas(16) float decay[k_kda_chunk_dim];  // E(end, start)
};

// Of the preparing warps alone.
struct chunk_scratch {
  alignas(16) float parts[k_kda_prepare_warps][2][k_kda_chunk][k_kda_part_stride];  // of A and P by 16 keys
  alignas(16) float diagonal[k_kda_prepare_warps][k_kda_chunk];                     // of P, likewise
  alignas(16) float a[k_kda_chunk][k_kda_a_stride];
  alignas(16) float k[k_kda_chunk][k_kda_key_stride];  // k E(., start)
  alignas(16) float v[k_kda_chunk][k_kda_chunk_values];
  alignas(16) float beta[k_kda_chunk];
};

struct chunk_memory {
  chunk_operands operands[2];  // one is read while the other one is written
  chunk_scratch scratch;
};

static_assert(sizeof(chunk_operands) == k_kda_operand_bytes);
static_assert(sizeof(chunk_memory) == k_kda_chunk_shared_bytes);

// Where a block is: one head of one sequence, values from `value` on.
struct chunk_place {
  sequence_range seq;
  std::int32_t head;
  std::int32_t value;

  // Element 0 of the head in the row of a token.
  __device__ std::int64_t cell(std::int32_t token, std::int32_t heads) const {
    return static_cast<std::int64_t>(seq.row + token) * heads + head;
  }
};

// Two floats as two pairs of bf16 whose sum they are but for 2^-17 of them.
struct bf16_halves {
  std::uint32_t high, low;
};

__device__ inline bf16_halves split(float first, float second) {
  const std::uint32_t high = pack_bf16(first, second);
  return {high, pack_bf16(first - low_bf16(high), second - high_bf16(high))};
}

// A tile's sum in two accumulators: products of the upper halves, and those with a lower half.
struct tile_sum {
  float high[4] = {0.0F, 0.0F, 0.0F, 0.0F};
  float low[4] = {0.0F, 0.0F, 0.0F, 0.0F};

  __device__ float value(int i) const { return high[i] + low[i]; }
};

__device__ inline void multiply(tile_sum& sum, const std::uint32_t (&a)[2][4],
                                const std::uint32_t (&b_high)[2], const std::uint32_t (&b_low)[2]) {
  mma_bf16(sum.high, a[0], b_high);
  mma_bf16(sum.low, a[0], b_low);
  mma_bf16(sum.low, a[1], b_high);
}

}  // namespace weir::kernels::cuda
