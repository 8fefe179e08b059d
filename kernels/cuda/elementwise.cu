#include "kernels/cuda/elementwise_config.hpp"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/ops.hpp"

namespace weir::kernels::cuda {

namespace {

struct add_values {
  __device__ float operator()(float x, float y) const { return x + y; }
};
struct silu_times {
  __device__ float operator()(float gate, float up) const { return silu(gate) * up; }
};
struct times_sigmoid {
  __device__ float operator()(float x, float gate) const { return x * sigmoid(gate); }
};
struct situ_times {
  float beta, linear;
  __device__ float operator()(float gate, float up) const {
    return beta * tanhf(gate / beta) * sigmoid(gate) * (linear * tanhf(up / linear));
  }
};

// x = op(x, y): the first `quads` groups of four by float4, the others one by one.
template <class Op>
__global__ void __launch_bounds__(k_elementwise_threads)
    combine(float* x, const float* y, std::int64_t quads, std::int64_t count, Op op) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * k_elementwise_threads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * k_elementwise_threads + threadIdx.x;
  for (std::int64_t i = first; i < quads; i += step) {
    float4 a = reinterpret_cast<const float4*>(x)[i];
    const float4 b = reinterpret_cast<const float4*>(y)[i];
    a = make_float4(op(a.x, b.x), op(a.y, b.y), op(a.z, b.z), op(a.w, b.w));
    reinterpret_cast<float4*>(x)[i] = a;
  }
  for (std::int64_t i = 4 * quads + first; i < count; i += step) x[i] = op(x[i], y[i]);
}

template <class Op>
void run(float* x, const float* y, std::int64_t count, Op op, const context& ctx) {
  const std::int64_t quads = aligned16(x, y) ? count / 4 : 0;
  launch(combine<Op>, elementwise_shape(count), ctx.stream, x, y, quads, count, op);
}

}  // namespace

void silu_mul(const silu_mul_params<float>& p, const context& ctx) {
  run(p.gate, p.up, p.count, silu_times{}, ctx);
}

void situ_mul(const situ_mul_params<float>& p, const context& ctx) {
  const situ_times op{static_cast<float>(p.situ.beta), static_cast<float>(p.situ.linear_beta)};
  run(p.gate, p.up, p.count, op, ctx);
}

void sigmoid_mul(const sigmoid_mul_params<float>& p, const context& ctx) {
  run(p.x, p.gate, p.count, times_sigmoid{}, ctx);
}

void add(const add_params<float>& p, const context& ctx) {
  run(p.x, p.y, p.count, add_values{}, ctx);
}

}  // namespace weir::kernels::cuda
