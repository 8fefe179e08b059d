// What the stages of attention share.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/mla_config.hpp"
#include "kernels/params.hpp"

namespace weir::kernels::cuda {

struct mla_stages {
  mla_params<float> p;
  std::int64_t slots;
  void* queries;  // absorbed and scaled: float or, for the tensor cores, bf16
  float* merged;  // lies where the queries did
  float* sums;
  float* stats;
};

// The positions of a row, and of a part of them.
struct row_view {
  std::int32_t sequence;
  std::int32_t count;  // positions that it sees
  std::int32_t split;  // positions of a split

  __device__ row_view(const batch_view& batch, std::int64_t row) {
    sequence = batch.row_sequence[row];
    const sequence_range range = batch.sequences[sequence];
    count = range.position + static_cast<std::int32_t>(row - range.row) + 1;
    split = split_positions(count);
  }
  __device__ int splits() const { return (count + split - 1) / split; }
};

// Element offset in the pages of what is stored for a position.
__device__ inline std::int64_t latent_offset(const mla_params<float>& p, std::int32_t sequence,
                                             int position) {
  const std::int64_t table = static_cast<std::int64_t>(sequence) * p.batch.table_stride;
  const std::int64_t page = p.batch.block_table[table + position / p.page_tokens];
  return page * p.page_stride + static_cast<std::int64_t>(position % p.page_tokens) * (p.rank + p.rope_dim);
}

// A split's result joins those before it: weights of exp(score - largest).
struct split_factors {
  float before;
  float next;

  // `largest` and `sum` are those before, and then of both.
  __device__ split_factors(float& largest, float& sum, float next_largest, float next_sum) {
    const float both = fmaxf(largest, next_largest);
    before = expf(largest - both);
    next = expf(next_largest - both);
    largest = both;
    sum = fmaf(next_sum, next, sum * before);
  }
  __device__ float join(float so_far, float value) const { return fmaf(value, next, so_far * before); }
};

// The first stage. Query: float, or std::uint16_t for bf16.
template <class Query>
void absorb_queries(const mla_stages& a, const context& ctx);

// The attending stage on tensor cores: queries in bf16. REQUIRES: k_mla_rank and k_mla_width, latents of bf16
// at multiples of 16 bytes, of float of 16 bytes too.
void attend_on_tensor_cores(const mla_stages& a, const context& ctx);

}  // namespace weir::kernels::cuda
