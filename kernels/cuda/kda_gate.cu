#include "kernels/cuda/gather_config.hpp"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/ops.hpp"

namespace weir::kernels::cuda {

namespace {

struct decay_of {
  float lower_bound;  // 0: none
  __device__ float operator()(float z, float rate) const {
    return lower_bound < 0.0F ? lower_bound * sigmoid(rate * z) : -rate * softplus(z);
  }
};

// Part blockIdx.x % parts of a row's decays; the first part takes the row's betas too.
template <bool Wide>
__global__ void __launch_bounds__(k_row_threads)
    gate_rows(float* g, float* beta, const float* dt_bias, const float* a_log, std::int32_t heads,
              std::int32_t dim, std::int32_t parts, decay_of decay) {
  const std::int64_t row = blockIdx.x / static_cast<unsigned>(parts);
  const auto part = static_cast<std::int32_t>(blockIdx.x % static_cast<unsigned>(parts));
  const auto me = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t width = heads * dim;
  float* at = g + row * width;
  if constexpr (Wide) {
    const std::int32_t i = part * k_row_part + 4 * me;
    if (i < width) {
      const float rate = expf(a_log[i / dim]);
      const float4 z = *reinterpret_cast<const float4*>(at + i);
      const float4 bias = *reinterpret_cast<const float4*>(dt_bias + i);
      *reinterpret_cast<float4*>(at + i) = make_float4(decay(z.x + bias.x, rate), decay(z.y + bias.y, rate),
                                                       decay(z.z + bias.z, rate), decay(z.w + bias.w, rate));
    }
  } else {
    const std::int32_t end = min((part + 1) * k_row_part, width);
    for (std::int32_t i = part * k_row_part + me; i < end; i += k_row_threads) {
      at[i] = decay(at[i] + dt_bias[i], expf(a_log[i / dim]));
    }
  }
  if (part != 0) return;
  for (std::int32_t head = me; head < heads; head += k_row_threads) {
    beta[row * heads + head] = sigmoid(beta[row * heads + head]);
  }
}

}  // namespace

void kda_gate(const kda_gate_params<float>& p, const context& ctx) {
  const std::int32_t width = p.heads * p.dim;
  const bool wide = p.dim % 4 == 0 && aligned16(p.g, p.dt_bias);
  launch(wide ? gate_rows<true> : gate_rows<false>, row_part_shape(p.rows, width), ctx.stream, p.g, p.beta,
         p.dt_bias, p.a_log, p.heads, p.dim, row_parts(width), decay_of{static_cast<float>(p.lower_bound)});
}

}  // namespace weir::kernels::cuda
