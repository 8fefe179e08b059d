#include "kernels/cuda/math.cuh"
#include "kernels/cuda/norm_config.hpp"
#include "kernels/cuda/ops.hpp"
#include "kernels/cuda/reduce.cuh"

namespace weir::kernels::cuda {

namespace {

// A row's factor from its sum of squares, then value i of the row from what it was.
struct by_weight {
  const float* weight;
  float dim, eps;
  __device__ float factor(float squares) const { return 1.0F / sqrtf(squares / dim + eps); }
  __device__ float value(float x, float factor, std::int64_t, std::int32_t i) const {
    return x * factor * weight[i];
  }
};
struct by_scale {
  float scale, eps;
  __device__ float factor(float squares) const { return scale / sqrtf(squares + eps); }
  __device__ float value(float x, float factor, std::int64_t, std::int32_t) const { return x * factor; }
};
struct by_weight_and_gate {
  const float* weight;
  const float* gate;
  std::int32_t width;
  float dim, eps;
  __device__ float factor(float squares) const { return 1.0F / sqrtf(squares / dim + eps); }
  __device__ float value(float x, float factor, std::int64_t row, std::int32_t i) const {
    return x * factor * weight[i] * sigmoid(gate[row * width + i]);
  }
};

// Four values where rows begin at whole sixteen bytes: neighbours in the weights and gates are then read as
// one by the compiler's own doing or from the first-level cache.
template <class Op>
__device__ inline float4 four(const Op& op, float4 x, float factor, std::int64_t row, std::int32_t i) {
  return make_float4(op.value(x.x, factor, row, i), op.value(x.y, factor, row, i + 1),
                     op.value(x.z, factor, row, i + 2), op.value(x.w, factor, row, i + 3));
}

// y = op(x) row by row: a row is a warp's (Warps 1) or a block's. x may be y: a thread writes what it alone
// read. The first `quads` groups of four of a row by float4.
template <int Warps, class Op>
__global__ void __launch_bounds__(k_norm_warps* k_warp)
    normalise(const float* x, float* y, std::int32_t rows, std::int32_t dim, std::int32_t stride,
              std::int32_t quads, Op op) {
  constexpr std::int32_t k_step = Warps * k_warp;
  const std::int64_t row =
      Warps == 1 ? static_cast<std::int64_t>(blockIdx.x) * k_norm_warps + warp_index() : blockIdx.x;
  if (row >= rows) return;
  const std::int32_t me = Warps == 1 ? lane_index() : static_cast<std::int32_t>(threadIdx.x);
  const float* from = x + row * stride;
  float* to = y + row * stride;
  float squares = 0.0F;
#pragma unroll 4
  for (std::int32_t i = me; i < quads; i += k_step) {
    const float4 v = reinterpret_cast<const float4*>(from)[i];
    squares += v.x * v.x + v.y * v.y + (v.z * v.z + v.w * v.w);
  }
  for (std::int32_t i = 4 * quads + me; i < dim; i += k_step) squares += from[i] * from[i];
  squares = Warps == 1 ? warp_sum(squares) : block_sum<Warps>(squares);
  const float factor = op.factor(squares);
#pragma unroll 4
  for (std::int32_t i = me; i < quads; i += k_step) {
    const float4 v = reinterpret_cast<const float4*>(from)[i];
    reinterpret_cast<float4*>(to)[i] = four(op, v, factor, row, 4 * i);
  }
  for (std::int32_t i = 4 * quads + me; i < dim; i += k_step) to[i] = op.value(from[i], factor, row, i);
}

template <class Op>
void run(const float* x, float* y, std::int32_t rows, std::int32_t dim, std::int32_t stride, const Op& op,
         const context& ctx) {
  const std::int32_t quads = stride % 4 == 0 && aligned16(x, y) ? dim / 4 : 0;
  launch(norm_by_warp(dim) ? normalise<1, Op> : normalise<k_norm_warps, Op>, norm_shape(rows, dim),
         ctx.stream, x, y, rows, dim, stride, quads, op);
}

}  // namespace

void rmsnorm(const rmsnorm_params<float>& p, const context& ctx) {
  const by_weight op{p.weight, static_cast<float>(p.dim), static_cast<float>(p.eps)};
  run(p.x, p.y, p.rows, p.dim, p.stride, op, ctx);
}

void l2norm(const l2norm_params<float>& p, const context& ctx) {
  const by_scale op{static_cast<float>(p.scale), static_cast<float>(p.eps)};
  run(p.x, p.x, p.rows, p.dim, p.dim, op, ctx);
}

void gated_norm(const gated_norm_params<float>& p, const context& ctx) {
  const by_weight_and_gate op{p.weight, p.gate, p.dim, static_cast<float>(p.dim), static_cast<float>(p.eps)};
  run(p.o, p.o, p.rows, p.dim, p.dim, op, ctx);
}

}  // namespace weir::kernels::cuda
