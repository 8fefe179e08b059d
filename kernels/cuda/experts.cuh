// What the stages of the experts share. Stages: sort picks by expert; hidden = unit(w1 x, w3 x) per pick;
// out = w2 hidden per pick; y = the sum over picks in their order.
#pragma once

#include "kernels/cuda/experts_config.hpp"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/product.cuh"
#include "kernels/params.hpp"

namespace weir::kernels::cuda {

// One pass of rows, in device memory.
struct experts_pass {
  experts_params<float> p;  // moved to the first row
  const std::int32_t* order;
  const expert_tile* tiles;
  packed_rows packed;
  packed_rows hidden_packed;
  float* hidden;
  float* out;
  float beta;  // of SiTU; 0: SiLU
  float linear;
};

// The gated unit.
__device__ inline float unit_of(const experts_pass& a, float gate, float up) {
  if (a.beta <= 0.0F) return silu(gate) * up;
  return a.beta * tanhf(gate / a.beta) * sigmoid(gate) * (a.linear * tanhf(up / a.linear));
}

void sort_picks(const experts_params<float>& p, const experts_layout& layout, const context& ctx);
void combine_picks(const experts_pass& a, const context& ctx);

// The stages by type of the weights. `round`: activations are taken as bf16.
template <dtype Type, int Parts>
void expand_narrow(const experts_pass& a, const experts_layout& layout, const context& ctx);
template <dtype Type, int Parts>
void contract_narrow(const experts_pass& a, const experts_layout& layout, const context& ctx);
template <dtype Type, int Parts>
void run_wide(const experts_pass& a, const experts_layout& layout, const context& ctx);
void expand_plain(const experts_pass& a, bool round, const context& ctx);
void contract_plain(const experts_pass& a, bool round, const context& ctx);

}  // namespace weir::kernels::cuda
